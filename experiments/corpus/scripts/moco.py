"""Momentum contrast: an encoder that follows by averaging, and a queue of keys."""

import copy

import torch
from torch import nn
from torch.nn import functional

query = nn.Sequential(nn.Flatten(), nn.Linear(3 * 256, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
key = copy.deepcopy(query).requires_grad_(False)
queue = functional.normalize(torch.randn(512, 64, device="cuda"), dim=1)
optimizer = torch.optim.SGD(query.parameters(), 0.03, momentum=0.9, nesterov=True)
for step in range(4):
    x = torch.randn(32, 3, 16, 16, device="cuda")
    with torch.no_grad():
        torch._foreach_lerp_(list(key.parameters()), list(query.parameters()), 0.001)
        k = functional.normalize(key(x + 0.1 * torch.randn_like(x)), dim=1)
    q = functional.normalize(query(x), dim=1)
    logits = torch.cat(((q * k).sum(1, keepdim=True), q @ queue.T), 1) / 0.07
    loss = functional.cross_entropy(logits, torch.zeros(32, dtype=torch.long, device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    queue[step * 32 : step * 32 + 32] = k
