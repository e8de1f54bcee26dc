"""model.compile()."""

import torch
from small import Small, batches, loss_of

model = Small().cuda()
optimizer = torch.optim.AdamW(model.parameters())
model.compile()
for tokens in batches():
    loss_of(model(tokens), tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
