"""A training script with a budget of its own, on the CPU: what a step is, it says itself."""

import torch
from torch import nn

import coopsim.live

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1))))
optimizer = torch.optim.Adam(model.parameters())
budget = coopsim.live.Budget("1GiB")
for _ in range(6):
    x = torch.randn(512, 64)
    with budget.step():
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"{loss.item():.9f}")
