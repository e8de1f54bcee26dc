"""An optimizer per parameter, which steps in the backward pass and frees each gradient at once."""

import torch
from torch import nn

model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.GELU()))).cuda()
optimizers = {p: torch.optim.AdamW([p], lr=1e-4, foreach=False) for p in model.parameters()}


def step(p):
    optimizers[p].step()
    optimizers[p].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(step)
for _ in range(3):
    model(torch.randn(512, 256, device="cuda")).square().mean().backward()
