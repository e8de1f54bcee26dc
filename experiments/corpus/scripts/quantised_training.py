"""Training with fake quantisation of weights and activations, straight-through."""

import torch
from torch import nn


class Fake(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return torch.clamp(torch.round(x / scale), -128, 127) * scale

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return grad * ((x / scale).abs() <= 127), None


class Quantised(nn.Linear):
    def forward(self, x):
        weight = Fake.apply(self.weight, self.weight.detach().abs().amax(1, keepdim=True) / 127)
        return nn.functional.linear(Fake.apply(x, x.detach().abs().amax() / 127), weight, self.bias)


model = nn.Sequential(Quantised(256, 512), nn.ReLU(), Quantised(512, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(256, 256, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
