"""Muon: momentum that is made orthogonal by five products of a polynomial; AdamW for what is no matrix."""

import torch
from torch import nn


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr=0.02, momentum=0.95):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                kept = self.state[p].setdefault("momentum", torch.zeros_like(p))
                kept.lerp_(p.grad, 1 - group["momentum"])
                p.add_(orthogonal(p.grad.lerp(kept, group["momentum"])), alpha=-group["lr"])


def orthogonal(g):
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    if g.size(0) > g.size(1):
        x = x.T
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        y = x @ x.T
        x = a * x + (b * y + c * y @ y) @ x
    return (x.T if g.size(0) > g.size(1) else x).to(g)


model = nn.Sequential(nn.Linear(256, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 10)).cuda()
matrices = [p for p in model.parameters() if p.ndim == 2]
optimizers = [Muon(matrices), torch.optim.AdamW([p for p in model.parameters() if p.ndim < 2])]
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(256, 256).cuda()), torch.randint(10, (256,)).cuda())
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
