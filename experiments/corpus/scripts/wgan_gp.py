"""A critic with gradient penalty: a backward pass of a gradient."""

import torch
from torch import nn

generator = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 64)).cuda()
critic = nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.LayerNorm(128), nn.Linear(128, 1)).cuda()
optimizer = torch.optim.Adam(critic.parameters(), betas=(0.0, 0.9))
for _ in range(3):
    real = torch.randn(64, 64, device="cuda")
    with torch.no_grad():
        fake = generator(torch.randn(64, 16, device="cuda"))
    share = torch.rand(64, 1, device="cuda")
    between = (share * real + (1 - share) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty = (slope.norm(2, dim=1) - 1).square().mean()
    optimizer.zero_grad()
    (critic(fake).mean() - critic(real).mean() + 10 * penalty).backward()
    optimizer.step()
