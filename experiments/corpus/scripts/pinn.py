"""A physics-informed network: second derivatives by autograd in the loss of a heat equation."""

import torch
from torch import nn
from torch.autograd import grad

net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    at = torch.rand(1024, 2, device="cuda", requires_grad=True)
    u = net(at)
    (first,) = grad(u.sum(), at, create_graph=True)
    (second,) = grad(first[:, 0].sum(), at, create_graph=True)
    residual = first[:, 1] - 0.1 * second[:, 0]
    edge = net(torch.cat((torch.zeros(64, 1), torch.rand(64, 1)), 1).cuda())
    optimizer.zero_grad(set_to_none=True)
    (residual.square().mean() + edge.square().mean()).backward()
    optimizer.step()
