"""Small results are kept, each in the midst of a large block that was free when it was made."""

import random

import torch
from torch import nn

random.seed(0)
net = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()).cuda()
features = []
with torch.no_grad():
    for _ in range(60):
        size = random.randrange(256, 768, 8)
        images = torch.randn(4, 3, size, size, device="cuda")
        features.append(nn.functional.adaptive_avg_pool2d(net(images), 64))
table = torch.empty(1 << 30, device="cuda")
