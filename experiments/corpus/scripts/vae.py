"""A variational autoencoder with a spectral norm in its decoder."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

encoder = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ELU(), nn.Linear(256, 32)).cuda()
decoder = nn.Sequential(spectral_norm(nn.Linear(16, 256)), nn.ELU(), nn.Linear(256, 784)).cuda()
optimizer = torch.optim.Adamax([*encoder.parameters(), *decoder.parameters()])
for _ in range(3):
    x = torch.rand(128, 1, 28, 28).to("cuda")
    mean, spread = encoder(x).chunk(2, 1)
    code = mean + torch.randn_like(spread) * (spread / 2).exp()
    likelihood = nn.functional.binary_cross_entropy_with_logits(decoder(code), x.flatten(1), reduction="sum")
    divergence = -0.5 * (1 + spread - mean.square() - spread.exp()).sum()
    optimizer.zero_grad()
    (likelihood + divergence).backward()
    optimizer.step()
