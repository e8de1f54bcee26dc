"""A language model of LSTMs, the loss over all words at once."""

import sys

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return x + self.norm(self.lstm(x)[0])


class Words(nn.Module):
    def __init__(self, words=16000, width=512, depth=4):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.Sequential(*(Layer(width) for _ in range(depth)))
        self.head = nn.Linear(width, words)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids)))


model = Words().cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    ids = torch.randint(0, 16000, (int(sys.argv[1]), 128), device="cuda")
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
