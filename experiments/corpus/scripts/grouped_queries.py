"""Attention with fewer key and value heads than query heads, as in modern language models, by PyTorch's own."""

import torch
from torch import nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention

HEADS, SHARED, WIDTH = 8, 2, 64


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(dim, HEADS * WIDTH, bias=False), nn.Linear(dim, 2 * SHARED * WIDTH, bias=False)
        self.out = nn.Linear(HEADS * WIDTH, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = rms_norm(x, x.shape[-1:])
        q = self.q(h).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
        k, v = self.kv(h).unflatten(-1, (2 * SHARED, WIDTH)).transpose(1, 2).chunk(2, dim=1)
        a = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return x + self.out(a.transpose(1, 2).flatten(2))


model = nn.Sequential(nn.Embedding(512, 256), *(Block(256) for _ in range(3)), nn.Linear(256, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for dtype in (torch.float32, torch.bfloat16, torch.bfloat16):
    tokens = torch.randint(512, (4, 129), device="cuda")
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        logits = model(tokens[:, :-1])
    nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
