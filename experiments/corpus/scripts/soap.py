"""A preconditioned optimizer of SOAP's and Shampoo's kind: eigenvectors of gradient statistics."""

import torch
from torch import nn


class Shampoo(torch.optim.Optimizer):
    def __init__(self, parameters, lr=1e-3, every=2):
        super().__init__(parameters, {"lr": lr, "every": every})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.ndim == 2):
                state = self.state[p]
                if not state:
                    state["n"] = 0
                    state["left"] = torch.eye(p.shape[0], device=p.device)
                    state["right"] = torch.eye(p.shape[1], device=p.device)
                state["left"].add_(p.grad @ p.grad.T)
                state["right"].add_(p.grad.T @ p.grad)
                if state["n"] % group["every"] == 0:
                    state["roots"] = [self.root(state["left"]), self.root(state["right"])]
                state["n"] += 1
                left, right = state["roots"]
                p.sub_(left @ p.grad @ right, alpha=group["lr"])

    @staticmethod
    def root(matrix):
        values, vectors = torch.linalg.eigh(matrix)
        return vectors * values.clamp_min(1e-6).pow(-0.25) @ vectors.T


model = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 32)).cuda()
optimizer = Shampoo(model.parameters())
for _ in range(4):
    nn.functional.mse_loss(model(torch.randn(64, 128, device="cuda")), torch.zeros(64, 32, device="cuda")).backward()
    optimizer.step()
    optimizer.zero_grad()
