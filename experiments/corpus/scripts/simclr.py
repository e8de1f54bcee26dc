"""Contrastive learning of two views, with cosine similarity and a projection head."""

import torch
from torch import nn
from torch.nn import functional

body = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
model = nn.Sequential(body, nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-6)
for _ in range(3):
    views = torch.cat([torch.randn(32, 3, 32, 32), torch.randn(32, 3, 32, 32)]).cuda()
    z = functional.normalize(model(views), dim=1)
    likeness = z @ z.T / 0.1
    likeness.fill_diagonal_(float("-inf"))
    partner = torch.arange(64, device="cuda").roll(32)
    optimizer.zero_grad()
    functional.cross_entropy(likeness, partner).backward()
    optimizer.step()
