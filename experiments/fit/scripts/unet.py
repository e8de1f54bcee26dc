"""A U-Net that segments images of different sizes."""

import sys

import torch
from torch import nn


class Double(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm = nn.GroupNorm(8, outputs)

    def forward(self, x):
        return nn.functional.relu(self.norm(self.second(nn.functional.relu(self.first(x)))))


class UNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.down = nn.ModuleList(Double(3 if i == 0 else width << (i - 1), width << i) for i in range(4))
        self.up = nn.ModuleList(Double(3 * (width << i), width << i) for i in reversed(range(3)))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(nn.functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for block, beside in zip(self.up, reversed(kept[:-1]), strict=True):
            x = block(torch.cat([nn.functional.interpolate(x, scale_factor=2), beside], 1))
        return self.head(x)


model = UNet().cuda()
optimizer = torch.optim.Adam(model.parameters())
for size in (192, 256, 224, 256, 160):
    images = torch.randn(int(sys.argv[1]), 3, size, size, device="cuda")
    masks = torch.randint(0, 2, (len(images), size, size), device="cuda")
    loss = nn.functional.cross_entropy(model(images), masks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
