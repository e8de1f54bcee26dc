"""A residual network in a plain loop, SGD with momentum."""

import sys

import torch
from transformers import ResNetConfig, ResNetForImageClassification

model = ResNetForImageClassification(ResNetConfig(num_labels=100)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    images = torch.randn(int(sys.argv[1]), 3, 128, 128, device="cuda")
    labels = torch.randint(0, 100, (len(images),), device="cuda")
    model(pixel_values=images, labels=labels).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
