"""PyTorch Geometric: attention over neighbours, self-loops removed and added by masks."""

import torch
from torch.nn import functional
from torch_geometric.nn import GATConv

first, second = GATConv(64, 8, heads=4).cuda(), GATConv(32, 7).cuda()
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.005)
x, edges = torch.randn(300, 64, device="cuda"), torch.randint(300, (2, 2000), device="cuda")
for _ in range(3):
    out = second(functional.elu(first(x, edges)), edges)
    optimizer.zero_grad()
    functional.cross_entropy(out, torch.randint(7, (300,), device="cuda")).backward()
    optimizer.step()
