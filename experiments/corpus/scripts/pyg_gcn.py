"""PyTorch Geometric: GCN on one graph, normalised once and cached; masks on the host."""

import torch
from torch.nn import functional
from torch_geometric.nn import GCNConv

first, second = GCNConv(64, 32, cached=True).cuda(), GCNConv(32, 7, cached=True).cuda()
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01, weight_decay=5e-4)
x, edges = torch.randn(500, 64, device="cuda"), torch.randint(500, (2, 4000), device="cuda")
y, train = torch.randint(7, (500,), device="cuda"), torch.arange(140, device="cuda")
for _ in range(3):
    out = second(functional.dropout(first(x, edges).relu(), 0.5), edges)
    optimizer.zero_grad()
    functional.cross_entropy(out[train], y[train]).backward()
    optimizer.step()
