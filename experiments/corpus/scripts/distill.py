"""Distillation: a frozen teacher under no_grad, a student, softened targets."""

import torch
from torch import nn
from torch.nn import functional


def net(width):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


teacher, student = net(1024).cuda().eval().requires_grad_(False), net(64).cuda()
optimizer = torch.optim.NAdam(student.parameters())
for _ in range(3):
    x, y = torch.randn(256, 64, device="cuda"), torch.randint(10, (256,), device="cuda")
    with torch.no_grad():
        wanted = (teacher(x) / 4).softmax(1)
    out = student(x)
    loss = functional.kl_div((out / 4).log_softmax(1), wanted, reduction="batchmean") * 16 + functional.cross_entropy(
        out, y
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
