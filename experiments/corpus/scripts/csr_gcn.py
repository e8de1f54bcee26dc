"""A graph convolution by a sparse CSR matrix."""

import torch
from torch import nn

nodes, degree = 1000, 8
rows = torch.arange(0, nodes * degree + 1, degree)
graph = torch.sparse_csr_tensor(rows, torch.randint(nodes, (nodes * degree,)), torch.ones(nodes * degree) / degree)
graph = graph.cuda()
first, second = nn.Linear(64, 64).cuda(), nn.Linear(64, 7).cuda()
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], weight_decay=5e-4)
x, y = torch.randn(nodes, 64, device="cuda"), torch.randint(7, (nodes,), device="cuda")
for _ in range(3):
    hidden = nn.functional.dropout(torch.relu(graph @ first(x)), 0.5)
    optimizer.zero_grad()
    nn.functional.cross_entropy(graph @ second(hidden), y).backward()
    optimizer.step()
