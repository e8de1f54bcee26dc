"""Wide layers, which the optimizer makes the most of; with a large batch it is activations beside gradients."""

import sys

import torch
from torch import nn

layers = [layer for _ in range(4) for layer in (nn.Linear(2048, 2048, bias=False), nn.ReLU())]
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    optimizer.zero_grad(set_to_none=False)
    model(torch.randn(int(sys.argv[1]), 2048, device="cuda")).sum().backward()
    optimizer.step()
