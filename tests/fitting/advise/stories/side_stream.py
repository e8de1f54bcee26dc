"""Weights are unpacked once, on a stream of their own, which keeps small scales in what was freed."""

import torch
from torch import nn

side = torch.cuda.Stream()
scales = []
with torch.cuda.stream(side):
    packed = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    wide = packed.to(torch.float16)
    del packed, wide
    for _ in range(2):
        scales.append(torch.ones(1 << 20, device="cuda"))
torch.cuda.current_stream().wait_stream(side)
model = nn.Sequential(*[nn.Sequential(nn.Linear(4096, 4096), nn.GELU()) for _ in range(12)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.randn(8192, 4096, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
