"""PointNet's kind: neighbours by distance and top-k, gathered features, maxima over points."""

import torch
from torch import nn

first = nn.Sequential(nn.Conv2d(6, 32, 1), nn.BatchNorm2d(32), nn.LeakyReLU(0.2)).cuda()
second = nn.Sequential(nn.Conv1d(32, 64, 1), nn.BatchNorm1d(64), nn.ReLU()).cuda()
head = nn.Linear(64, 10).cuda()
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters(), *head.parameters()], 0.1)
for _ in range(3):
    x = torch.randn(8, 3, 256, device="cuda")
    near = torch.cdist(x.mT, x.mT).topk(16, largest=False).indices
    gathered = torch.gather(x[:, :, None].expand(-1, -1, 256, -1), 3, near[:, None].expand(-1, 3, -1, -1))
    edges = torch.cat((gathered - x[..., None], x[..., None].expand_as(gathered)), 1)
    features = second(first(edges).max(-1).values).max(-1).values
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(features), torch.randint(10, (8,), device="cuda")).backward()
    optimizer.step()
