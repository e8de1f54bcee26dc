"""A forward pass that prints in each block."""

import torch
from small import Block, Small, batches, loss_of


class Talkative(Block):
    def forward(self, x):
        x = super().forward(x)
        print("block of", tuple(x.shape))
        return x * 2


model = Small(Talkative).cuda()
optimizer = torch.optim.AdamW(model.parameters())
run = torch.compile(model)
for tokens in batches():
    loss_of(run(tokens), tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
