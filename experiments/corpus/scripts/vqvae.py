"""A vector-quantised autoencoder: nearest codes, straight-through gradients."""

import torch
from torch import nn
from torch.nn import functional

encoder = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1)).cuda()
decoder = nn.Sequential(nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1)).cuda()
codes = nn.Embedding(256, 32).cuda()
optimizer = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters(), *codes.parameters()])
for _ in range(3):
    x = torch.randn(8, 3, 32, 32, device="cuda")
    z = encoder(x)
    flat = z.permute(0, 2, 3, 1).reshape(-1, 32)
    nearest = torch.cdist(flat, codes.weight).argmin(1)
    q = codes(nearest).view(8, 8, 8, 32).permute(0, 3, 1, 2)
    commitment = functional.mse_loss(z, q.detach()) * 0.25 + functional.mse_loss(q, z.detach())
    loss = functional.mse_loss(decoder(z + (q - z).detach()), x) + commitment
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
