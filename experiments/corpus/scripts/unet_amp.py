"""A U-Net for segmentation under AMP with a gradient scaler, channels last, Dice loss."""

import torch
from torch import nn


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(True), nn.Conv2d(o, o, 3, padding=1))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([block(3, 16), block(16, 32)])
        self.middle = block(32, 64)
        self.up = nn.ModuleList([nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)])
        self.joined = nn.ModuleList([block(64, 32), block(32, 16)])
        self.head = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for up, joined in zip(self.up, self.joined, strict=True):
            x = joined(torch.cat((up(x), kept.pop()), 1))
        return self.head(x)


model = UNet().cuda().to(memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
for _ in range(3):
    x = torch.randn(4, 3, 64, 64).cuda().contiguous(memory_format=torch.channels_last)
    y = torch.randint(2, (4, 64, 64), device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(x)
        share = out.softmax(1)[:, 1]
        dice = 1 - (2 * (share * y).sum() + 1) / (share.sum() + y.sum() + 1)
        loss = nn.functional.cross_entropy(out, y) + dice
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
