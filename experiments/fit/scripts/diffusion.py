"""A denoising U-Net in the style of diffusers: residual blocks with a time embedding, attention at the bottom."""

import sys

import torch
from torch import nn


class ResnetBlock(nn.Module):
    def __init__(self, inputs, outputs, time=256):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x, time):
        y = self.conv1(nn.functional.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.conv2(nn.functional.silu(self.norm2(y)))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.attention = nn.MultiheadAttention(width, 8, batch_first=True)

    def forward(self, x):
        flat = self.norm(x).flatten(2).transpose(1, 2)
        return x + self.attention(flat, flat, flat)[0].transpose(1, 2).reshape(x.shape)


class Denoiser(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        sizes = [width, 2 * width, 4 * width]
        self.into = nn.Conv2d(4, width, 3, padding=1)
        self.down = nn.ModuleList(ResnetBlock(a, b) for a, b in zip([width, *sizes], sizes, strict=False))
        self.middle = Attention(4 * width)
        self.up = nn.ModuleList(ResnetBlock(2 * b, a) for a, b in zip([width, *sizes[:-1]], sizes, strict=True))
        self.out = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x, time):
        x, kept = self.into(x), []
        for block in self.down:
            x = block(x, time)
            kept.append(x)
            x = nn.functional.avg_pool2d(x, 2)
        x = self.middle(x)
        for block in reversed(self.up):
            x = block(torch.cat([nn.functional.interpolate(x, scale_factor=2), kept.pop()], 1), time)
        return self.out(x)


model = Denoiser().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(3):
    latents = torch.randn(int(sys.argv[1]), 4, 64, 64, device="cuda")
    noise, time = torch.randn_like(latents), torch.randn(len(latents), 256, device="cuda")
    nn.functional.mse_loss(model(latents + noise, time), noise).backward()
    optimizer.step()
    optimizer.zero_grad()
