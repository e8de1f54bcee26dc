"""Weights in bfloat16 with PyTorch's Adafactor, gradients clipped by norm, an evaluation between steps."""

import torch
from torch import nn

model = nn.Sequential(nn.Embedding(1000, 128), nn.Linear(128, 512), nn.SiLU(), nn.Linear(512, 1000))
model = model.to("cuda", torch.bfloat16)
optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-2)
for _ in range(3):
    ids = torch.randint(1000, (8, 65), device="cuda")
    model.train()
    nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1).float(), ids[:, 1:].flatten()).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        print(model(ids).argmax(-1).float().mean().item())
