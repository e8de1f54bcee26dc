"""torch.compile(model)."""

import torch
from small import Small, batches, loss_of

model = Small().cuda()
optimizer = torch.optim.AdamW(model.parameters())
run = torch.compile(model)
for tokens in batches():
    loss_of(run(tokens), tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
