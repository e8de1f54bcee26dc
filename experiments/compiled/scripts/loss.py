"""A compiled loss of a model that is not compiled."""

import torch
from small import Small, batches, loss_of

model = Small().cuda()
optimizer = torch.optim.AdamW(model.parameters())
compiled = torch.compile(loss_of)
for tokens in batches():
    compiled(model(tokens), tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
