"""Style transfer by L-BFGS on an image: Gram matrices of a fixed network."""

import torch
from torch import nn

features = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(16, 32, 3, 1, 1)).cuda()
features.requires_grad_(False)


def gram(x):
    flat = x.flatten(2)
    return flat @ flat.transpose(1, 2) / flat.shape[2]


style = gram(features(torch.rand(1, 3, 64, 64, device="cuda")))
image = torch.rand(1, 3, 64, 64, device="cuda", requires_grad=True)
optimizer = torch.optim.LBFGS([image], max_iter=4, history_size=5)


def closure():
    optimizer.zero_grad()
    loss = (gram(features(image)) - style).square().sum()
    loss.backward()
    return loss


for _ in range(2):
    optimizer.step(closure)
    with torch.no_grad():
        image.clamp_(0, 1)
