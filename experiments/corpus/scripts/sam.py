"""Sharpness-aware minimisation: two backward passes per step, the first at perturbed weights."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def loss(x, y):
    return nn.functional.cross_entropy(model(x), y)


for _ in range(3):
    x, y = torch.randn(128, 128, device="cuda"), torch.randint(10, (128,), device="cuda")
    loss(x, y).backward()
    with torch.no_grad():
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        moves = [p.grad * (0.05 / (norm + 1e-12)) for p in model.parameters()]
        for p, move in zip(model.parameters(), moves, strict=True):
            p.add_(move)
    optimizer.zero_grad()
    loss(x, y).backward()
    with torch.no_grad():
        for p, move in zip(model.parameters(), moves, strict=True):
            p.sub_(move)
    optimizer.step()
    optimizer.zero_grad()
