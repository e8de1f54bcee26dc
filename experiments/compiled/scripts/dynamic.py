"""Batches of three sizes, compiled once."""

import torch
from small import Small, batches, loss_of

model = Small().cuda()
optimizer = torch.optim.AdamW(model.parameters())
run = torch.compile(model, dynamic=True)
for tokens in batches((16, 12, 16, 8, 16)):
    loss_of(run(tokens), tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
