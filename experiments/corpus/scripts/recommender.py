"""A recommender of DLRM's kind: embedding bags, products of features, many small tables."""

import torch
from torch import nn

tables = nn.ModuleList(nn.EmbeddingBag(1000, 16, mode="sum") for _ in range(12)).cuda()
bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 16)).cuda()
top = nn.Sequential(nn.Linear(16 + 78, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.Adagrad([*tables.parameters(), *bottom.parameters(), *top.parameters()], lr=0.01)
upper = torch.triu_indices(13, 13, 1).cuda()
for _ in range(3):
    dense = bottom(torch.randn(256, 13, device="cuda"))
    offsets = torch.arange(0, 1024, 4, device="cuda")
    sparse = [table(torch.randint(1000, (1024,), device="cuda"), offsets) for table in tables]
    features = torch.stack([dense, *sparse], 1)
    products = torch.bmm(features, features.transpose(1, 2))[:, upper[0], upper[1]]
    out = top(torch.cat((dense, products), 1)).squeeze(1)
    optimizer.zero_grad()
    nn.functional.binary_cross_entropy_with_logits(out, torch.zeros(256, device="cuda")).backward()
    optimizer.step()
