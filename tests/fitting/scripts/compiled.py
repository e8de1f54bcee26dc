"""The stack of blocks, compiled."""

import sys

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        return x + self.layers(x)


model = nn.Sequential(*(Block(256) for _ in range(6)), nn.Linear(256, 10)).cuda()
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(3):
    x = torch.randn(int(sys.argv[1]), 256, device="cuda")
    y = torch.randint(0, 10, (len(x),), device="cuda")
    nn.functional.cross_entropy(compiled(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
