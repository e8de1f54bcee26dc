"""A language model's loss over chunks of the words, each chunk's logits recomputed."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

body = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True), 2).cuda()
words, head = nn.Embedding(8000, 64).cuda(), nn.Linear(64, 8000, bias=False).cuda()
optimizer = torch.optim.AdamW([*body.parameters(), *words.parameters(), *head.parameters()])


def part(x, y):
    return nn.functional.cross_entropy(head(x), y, reduction="sum")


for _ in range(3):
    ids = torch.randint(8000, (4, 129), device="cuda")
    x = body(words(ids[:, :-1])).flatten(0, 1)
    pieces = zip(x.chunk(8), ids[:, 1:].flatten().chunk(8), strict=True)
    loss = sum(checkpoint(part, a, b, use_reentrant=False) for a, b in pieces) / ids.numel()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
