"""A hand-written Triton kernel in a compiled model."""

import torch
import triton
import triton.language as tl
from small import WIDTH, Block, Small, batches, loss_of


@triton.autotune([triton.Config({"B": b}) for b in (256, 512)], key=["n"])
@triton.jit
def squares(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.maximum(tl.load(x + i, mask=i < n), 0.0)
    tl.store(out + i, value * value, mask=i < n)


class SquaredReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        squares[lambda at: (triton.cdiv(x.numel(), at["B"]),)](x, out, x.numel())
        return out

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0].relu() * gradient


class Activation(torch.nn.Module):
    def forward(self, x):
        return SquaredReLU.apply(x)


class WithKernel(Block):
    def __init__(self):
        super().__init__()
        inner = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
        self.mlp = torch.nn.Sequential(inner[0], Activation(), inner[1])


model = Small(WithKernel).cuda()
optimizer = torch.optim.AdamW(model.parameters())
run = torch.compile(model)
for tokens in batches():
    loss_of(run(tokens), tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
