"""A recipe of torchtune's kind: LoRA by hand on a decoder in bfloat16, a packed mask, a loss in chunks."""

import torch
from torch import nn
from torch.nn import functional


class LoRA(nn.Module):
    def __init__(self, size, rank=8):
        super().__init__()
        self.base = nn.Linear(size, size, bias=False).requires_grad_(False)
        self.a, self.b = nn.Linear(size, rank, bias=False), nn.Linear(rank, size, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x) + 2.0 * self.b(self.a(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.v = LoRA(128), LoRA(128)
        self.k = nn.Linear(128, 128, bias=False).requires_grad_(False)
        self.norm = nn.RMSNorm(128).requires_grad_(False)

    def forward(self, x, mask):
        y = self.norm(x)
        q, k, v = (f(y).unflatten(2, (8, 16)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return x + functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


with torch.device("cuda"):
    words = nn.Embedding(1000, 128).to(torch.bfloat16).requires_grad_(False)
    layers = nn.ModuleList(Layer() for _ in range(3)).to(torch.bfloat16)
optimizer = torch.optim.AdamW([p for p in layers.parameters() if p.requires_grad], fused=True)
part = torch.arange(96, device="cuda") // 32
mask = (part[:, None] == part[None]) & torch.ones(96, 96, dtype=torch.bool, device="cuda").tril()
for _ in range(3):
    ids = torch.randint(1000, (2, 97), device="cuda")
    x = words(ids[:, :-1])
    for layer in layers:
        x = layer(x, mask)
    pieces = zip(x.chunk(4, 1), ids[:, 1:].chunk(4, 1), strict=True)
    loss = sum(functional.cross_entropy((a @ words.weight.T).float().flatten(0, 1), b.flatten()) for a, b in pieces) / 4
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
