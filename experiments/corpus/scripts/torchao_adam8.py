"""torchao: Adam with its state in eight bits, by tensor subclasses."""

import torch
from torch import nn
from torchao.optim import AdamW8bit

model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)).cuda()
optimizer = AdamW8bit(model.parameters(), lr=1e-3)
for _ in range(2):
    model(torch.randn(32, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
