"""A mixture of experts with top-2 routing by one-hot weights, so that every shape is known."""

import torch
from torch import nn
from torch.nn import functional


class Experts(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, width, 2 * width) * 0.02)
        self.down = nn.Parameter(torch.randn(count, 2 * width, width) * 0.02)
        self.count = count

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        gates = torch.zeros(*x.shape[:-1], self.count, device=x.device, dtype=weights.dtype)
        gates = gates.scatter(-1, chosen, weights)
        inner = functional.gelu(torch.einsum("btw,ewh->bteh", x, self.up))
        out = torch.einsum("bteh,ehw,bte->btw", inner, self.down, gates)
        share = functional.one_hot(chosen, self.count).float().mean((0, 1, 2))
        return out, (share * gates.mean((0, 1))).sum() * self.count


layers = nn.ModuleList(Experts(64, 4) for _ in range(2)).cuda()
head = nn.Linear(64, 100).cuda()
optimizer = torch.optim.AdamW([*layers.parameters(), *head.parameters()])
for _ in range(3):
    x, extra = torch.randn(4, 32, 64, device="cuda"), 0.0
    for layer in layers:
        y, balance = layer(x)
        x, extra = x + y, extra + balance
    loss = functional.cross_entropy(head(x).flatten(0, 1), torch.randint(100, (128,), device="cuda")) + 0.01 * extra
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
