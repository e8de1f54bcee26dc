"""Sequences of ever other lengths: no two steps ask for the same sizes."""

import random

import torch
from torch import nn

random.seed(1)
WIDTH = 1024
embedding = nn.Embedding(32000, WIDTH).cuda()
body = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, batch_first=True), 8).cuda()
head = nn.Linear(WIDTH, 32000, bias=False).cuda()
optimizer = torch.optim.AdamW([*embedding.parameters(), *body.parameters(), *head.parameters()])
for _ in range(20):
    length = random.randrange(128, 513)
    tokens = torch.zeros(8, length, dtype=torch.long, device="cuda")
    scores = head(body(embedding(tokens)))
    nn.functional.cross_entropy(scores.view(-1, 32000), tokens.view(-1)).backward()
    optimizer.step()
    optimizer.zero_grad()
