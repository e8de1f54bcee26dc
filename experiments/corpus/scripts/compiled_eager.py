"""torch.compile by AOTAutograd without Inductor: graphs, a break, a varying batch."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 128)).cuda()
optimizer = torch.optim.AdamW(model.parameters())


@torch.compile(backend="aot_eager")
def loss(x):
    return (model(x) - x).square().mean()


for size in (64, 64, 96):
    loss(torch.randn(size, 128, device="cuda")).backward()
    optimizer.step()
    optimizer.zero_grad()
