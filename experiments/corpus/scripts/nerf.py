"""A radiance field: positions in Fourier features, rays composed of samples, rendered in chunks."""

import torch
from torch import nn


class Field(nn.Module):
    def __init__(self, octaves=6):
        super().__init__()
        self.register_buffer("scale", 2.0 ** torch.arange(octaves))
        self.body = nn.Sequential(nn.Linear(6 * octaves, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, 4)

    def forward(self, at):
        phase = (at[..., None] * self.scale).flatten(-2)
        return self.head(self.body(torch.cat((phase.sin(), phase.cos()), -1)))


field = Field().cuda()
optimizer = torch.optim.Adam(field.parameters(), 5e-4)
for _ in range(3):
    start, way = torch.randn(256, 1, 3, device="cuda"), torch.randn(256, 1, 3, device="cuda")
    depth = torch.linspace(2, 6, 32, device="cuda")[None, :, None]
    out = torch.cat([field(part) for part in (start + way * depth).split(64)])
    opacity = 1 - (-out[..., 3].relu() * 0.1).exp()
    through = torch.cumprod(torch.cat((torch.ones_like(opacity[:, :1]), 1 - opacity + 1e-10), 1), 1)[:, :-1]
    colour = ((opacity * through)[..., None] * out[..., :3].sigmoid()).sum(1)
    optimizer.zero_grad()
    (colour - 0.5).square().mean().backward()
    optimizer.step()
