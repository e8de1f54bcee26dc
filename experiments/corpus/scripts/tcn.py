"""A temporal convolution over audio with weight norm, dilations, and an STFT loss."""

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

layers = []
for i in range(4):
    layers += [weight_norm(nn.Conv1d(16 if i else 1, 16, 3, padding=2**i, dilation=2**i)), nn.ELU()]
model = nn.Sequential(*layers, nn.Conv1d(16, 1, 1)).cuda()
optimizer = torch.optim.RAdam(model.parameters())
window = torch.hann_window(256, device="cuda")


def spectrum(x):
    return torch.stft(x.squeeze(1), 256, 64, window=window, return_complex=True).abs()


for _ in range(3):
    x = torch.randn(4, 1, 4096, device="cuda")
    y = model(x)
    loss = nn.functional.l1_loss(spectrum(y), spectrum(x)) + nn.functional.l1_loss(y, x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
