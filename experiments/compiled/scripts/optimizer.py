"""A compiled step of the optimizer."""

import torch
from small import Small, batches, loss_of

model = Small().cuda()
optimizer = torch.optim.AdamW(model.parameters())
optimizer.step = torch.compile(optimizer.step)
for tokens in batches():
    loss_of(model(tokens), tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
