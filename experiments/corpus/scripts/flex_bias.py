"""Attention with a learned relative bias, whose gradient needs the scores, and dropout."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

bias = nn.Parameter(torch.zeros(8, 255, device="cuda"))
project = nn.Linear(128, 384).cuda()
optimizer = torch.optim.AdamW([bias, *project.parameters()])
distance = torch.arange(128, device="cuda")[:, None] - torch.arange(128, device="cuda")[None] + 127
for _ in range(3):
    q, k, v = project(torch.randn(4, 128, 128, device="cuda")).view(4, 128, 3, 8, 16).permute(2, 0, 3, 1, 4)
    out = scaled_dot_product_attention(q, k, v, attn_mask=bias[:, distance], dropout_p=0.1)
    out.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
