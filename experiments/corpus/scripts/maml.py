"""MAML by torch.func: an inner step of gradient descent within the loss, over a batch of tasks by vmap."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

model = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1)).cuda()
parameters = dict(model.named_parameters())
optimizer = torch.optim.Adam(model.parameters())


def loss(weights, x, y):
    return (functional_call(model, weights, (x,)) - y).square().mean()


def task(x, y, x2, y2):
    slopes = grad(loss)(parameters, x, y)
    return loss({name: p - 0.01 * slopes[name] for name, p in parameters.items()}, x2, y2)


for _ in range(3):
    data = [torch.randn(25, 10, 1, device="cuda") for _ in range(4)]
    optimizer.zero_grad()
    vmap(task, randomness="same")(*data).mean().backward()
    optimizer.step()
