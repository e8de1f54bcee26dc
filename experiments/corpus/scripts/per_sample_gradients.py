"""Private training: per-sample gradients by vmap, clipped and noised."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 26 * 26, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def loss(weights, x, y):
    return nn.functional.cross_entropy(functional_call(model, weights, (x[None],)), y[None])


for _ in range(3):
    x, y = torch.randn(32, 1, 28, 28, device="cuda"), torch.randint(10, (32,), device="cuda")
    weights = {name: p.detach() for name, p in model.named_parameters()}
    each = vmap(grad(loss), (None, 0, 0))(weights, x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
    scale = (1.0 / (norms + 1e-6)).clamp(max=1)
    for name, p in model.named_parameters():
        g = torch.einsum("b...,b->...", each[name], scale)
        p.grad = (g + torch.randn_like(g)) / 32
    optimizer.step()
