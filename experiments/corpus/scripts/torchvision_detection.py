"""Faster R-CNN: proposals by masks and sorting, whose numbers depend on data."""

import torch
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn

model = fasterrcnn_mobilenet_v3_large_320_fpn(
    weights=None, weights_backbone=None, num_classes=5, min_size=96, max_size=128
).cuda()
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.005, momentum=0.9)
for _ in range(2):
    boxes = torch.tensor([[5.0, 5.0, 40.0, 40.0], [20.0, 30.0, 80.0, 90.0]]).cuda()
    target = {"boxes": boxes, "labels": torch.tensor([1, 2]).cuda()}
    losses = model([torch.rand(3, 96, 96, device="cuda")] * 2, [target] * 2)
    optimizer.zero_grad()
    sum(losses.values()).backward()
    optimizer.step()
