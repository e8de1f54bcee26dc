"""A loop with an autograd function of its own, hooks on gradients, and an optimizer written by hand around SGD."""

import sys

import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


rows = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
weights = [torch.nn.Parameter(torch.randn(2048, 2048, device="cuda")) for _ in range(4)]
norms = []
for weight in weights:
    weight.register_hook(lambda g: norms.append(g.norm()) or g * 0.5)
    weight.register_post_accumulate_grad_hook(lambda p: (p.grad.clamp_(-1, 1), None)[1])
optimizer = torch.optim.SGD(weights, lr=1e-3, momentum=0.9)
for _ in range(5):
    x = torch.randn(rows, 2048, device="cuda")
    for weight in weights:
        x = Square.apply(x @ weight)
    x.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    norms.clear()
