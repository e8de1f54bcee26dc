"""Autograd formulas that PyTorch computes out of place while a dispatch mode is active: gather, indexing, powers."""

import torch
from torch import nn

V, D, N = 4096, 128, 512
embedding, head = nn.Embedding(V, D).cuda(), nn.Linear(D, V, bias=False).cuda()
optimizer = torch.optim.SGD([*embedding.parameters(), *head.parameters()], lr=0.1)
ids = torch.randint(0, V, (4, N // 4), device="cuda")
for _ in range(3):
    logits = head(embedding.weight[ids])
    chosen = torch.gather(logits, -1, ids[..., None]).squeeze(-1)
    lse = torch.stack([torch.logsumexp(one, dim=-1) for one in logits])
    loss = (lse - chosen).mean() + logits.square().mean() + logits.max(dim=-1).values.mean() + logits.cumprod(1).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
