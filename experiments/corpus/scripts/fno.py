"""A Fourier neural operator: products with complex weights between rfft2 and irfft2."""

import torch
from torch import nn


class Spectral(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, modes, dtype=torch.cfloat) / width)

    def forward(self, x):
        spectrum = torch.fft.rfft2(x)
        out = torch.zeros_like(spectrum)
        m = self.modes
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.weight)
        return torch.fft.irfft2(out, s=x.shape[-2:])


class Operator(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.head = nn.Conv2d(1, 16, 1), nn.Conv2d(16, 1, 1)
        self.spectral = nn.ModuleList(Spectral(16, 8) for _ in range(3))
        self.local = nn.ModuleList(nn.Conv2d(16, 16, 1) for _ in range(3))

    def forward(self, x):
        x = self.lift(x)
        for spectral, local in zip(self.spectral, self.local, strict=True):
            x = nn.functional.gelu(spectral(x) + local(x))
        return self.head(x)


model = Operator().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    x = torch.randn(4, 1, 64, 64, device="cuda")
    (model(x) - x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
