"""A vision loop in the manner of timm's train.py: AMP, gradient accumulation, clipping, an average of the weights."""

import argparse
import copy

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--grad-accum-steps", type=int, default=2)
args = parser.parse_args()

torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Sequential(
    nn.Conv2d(3, 64, 3, padding=1),
    nn.BatchNorm2d(64),
    nn.ReLU(inplace=True),
    nn.Conv2d(64, 128, 3, stride=2, padding=1),
    nn.BatchNorm2d(128),
    nn.ReLU(inplace=True),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Dropout(0.1),
    nn.Linear(128, 10),
).to(device, memory_format=torch.channels_last)
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
scaler = torch.amp.GradScaler()
for update in range(5):
    optimizer.zero_grad()
    for _ in range(args.grad_accum_steps):
        images = torch.rand(args.batch_size, 3, 64, 64).to(device, memory_format=torch.channels_last)
        labels = torch.randint(0, 10, (args.batch_size,)).to(device)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(images), labels, label_smoothing=0.1)
        scaler.scale(loss / args.grad_accum_steps).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    schedule.step()
    with torch.no_grad():
        for mean, now in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(now, 0.01)
    print(f"update {update}: loss {loss.item():.3f}")
