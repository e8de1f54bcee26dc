"""A script for gates, and a line that makes it keep activations."""

SCRIPT = """\
import torch

kept = []
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(3)]).cuda()
optimizer = torch.optim.SGD(model.parameters())
x = torch.randn(2048, 256, device="cuda")
for _ in range(3):
    y = model(x)
    y.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
KEEPS = "    kept.append(y.detach().relu())\n"
