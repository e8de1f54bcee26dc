"""A Llama-like decoder by hand: RMSNorm, rotary embedding, grouped queries, SwiGLU, checkpointed blocks."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH, HEADS, GROUPS, LENGTH, VOCAB = 128, 8, 2, 128, 1000
HEAD = WIDTH // HEADS


def rotated(x, angles):
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1).type_as(x)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.o = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.kv = nn.Linear(WIDTH, 2 * GROUPS * HEAD, bias=False)
        self.gate, self.up = nn.Linear(WIDTH, 352, bias=False), nn.Linear(WIDTH, 352, bias=False)
        self.down = nn.Linear(352, WIDTH, bias=False)

    def forward(self, x, angles):
        b, t, _ = x.shape
        y = self.norm(x)
        q = rotated(self.q(y).view(b, t, HEADS, HEAD).transpose(1, 2), angles)
        k, v = self.kv(y).view(b, t, 2, GROUPS, HEAD).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, rotated(k, angles), v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(4))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        steps = 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)
        self.register_buffer("angles", torch.outer(torch.arange(LENGTH), steps), persistent=False)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = checkpoint(layer, x, self.angles, use_reentrant=False)
        return self.head(self.norm(x))


with torch.device("cuda"):
    model = Decoder()
model.to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for _ in range(3):
    ids = torch.randint(VOCAB, (4, LENGTH + 1), device="cuda")
    loss = functional.cross_entropy(model(ids[:, :-1]).float().flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
