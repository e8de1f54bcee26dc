"""PyTorch Geometric: GraphSAGE with edges predicted by products, negatives drawn on the host."""

import torch
from torch.nn import functional
from torch_geometric.nn import GraphSAGE

model = GraphSAGE(32, 64, num_layers=2, dropout=0.1).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, edges = torch.randn(400, 32, device="cuda"), torch.randint(400, (2, 3000), device="cuda")
for _ in range(3):
    z = model(x, edges)
    far = torch.randint(400, (2, 3000)).cuda()
    scores = torch.cat(((z[edges[0]] * z[edges[1]]).sum(1), (z[far[0]] * z[far[1]]).sum(1)))
    wanted = torch.cat((torch.ones(3000), torch.zeros(3000))).cuda()
    optimizer.zero_grad()
    functional.binary_cross_entropy_with_logits(scores, wanted).backward()
    optimizer.step()
