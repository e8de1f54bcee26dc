import argparse

import torch
from torch import nn


class Language(nn.Module):
    def __init__(self, tokens=32000, width=1024, depth=16):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 16, 4 * width, batch_first=True) for _ in range(depth)
        )
        self.head = nn.Linear(width, tokens)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=16)
args = parser.parse_args()
model = Language().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for _ in range(3):
    ids = torch.randint(32000, (args.batch, 513), device="cuda")
    logits = model(ids[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
