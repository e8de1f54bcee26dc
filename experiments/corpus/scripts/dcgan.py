"""DCGAN: two networks, two optimizers, transposed convolutions."""

import torch
from torch import nn


def up(i, o):
    return nn.Sequential(nn.ConvTranspose2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(True))


def down(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.LeakyReLU(0.2, True))


generator = nn.Sequential(
    nn.ConvTranspose2d(32, 64, 4), up(64, 32), up(32, 16), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()
).cuda()
critic = nn.Sequential(down(3, 16), down(16, 32), down(32, 64), nn.Conv2d(64, 1, 4)).cuda()
first = torch.optim.Adam(generator.parameters(), 2e-4, (0.5, 0.999))
second = torch.optim.Adam(critic.parameters(), 2e-4, (0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for _ in range(3):
    real, ones = torch.randn(16, 3, 32, 32, device="cuda"), torch.ones(16, device="cuda")
    fake = generator(torch.randn(16, 32, 1, 1, device="cuda"))
    second.zero_grad()
    (criterion(critic(real).flatten(), ones) + criterion(critic(fake.detach()).flatten(), 0 * ones)).backward()
    second.step()
    first.zero_grad()
    criterion(critic(fake).flatten(), ones).backward()
    first.step()
