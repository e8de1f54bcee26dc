"""Adam with its state in eight bits."""

import bitsandbytes
import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)).cuda()
optimizer = bitsandbytes.optim.AdamW8bit(model.parameters(), lr=1e-3)
for _ in range(3):
    model(torch.randn(64, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
