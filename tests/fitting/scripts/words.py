"""Many words: the loss makes the peak."""

import sys

import torch
from torch import nn

model = nn.Sequential(nn.Embedding(16000, 64), nn.Linear(64, 16000)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    ids = torch.randint(0, 16000, (int(sys.argv[1]),), device="cuda")
    nn.functional.cross_entropy(model(ids), ids).backward()
    optimizer.step()
    optimizer.zero_grad()
