"""Activations on the host: saved_tensors_hooks of PyTorch's own, pinned."""

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu

model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.GELU()))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    with save_on_cpu(pin_memory=True):
        loss = model(torch.randn(512, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
