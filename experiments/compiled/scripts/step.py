"""A whole step compiled: forward, backward, optimizer."""

import torch
from small import Small, batches, loss_of

model = Small().cuda()
optimizer = torch.optim.AdamW(model.parameters())


@torch.compile
def step(tokens):
    loss_of(model(tokens), tokens).backward()
    optimizer.step()
    optimizer.zero_grad()


for tokens in batches():
    step(tokens)
