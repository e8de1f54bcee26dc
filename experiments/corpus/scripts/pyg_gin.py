"""PyTorch Geometric: graphs in batches by its loader, GIN, pooled sums."""

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_add_pool

graphs = [
    Data(x=torch.randn(20, 16), edge_index=torch.randint(20, (2, 60)), y=torch.tensor([i % 2])) for i in range(64)
]
loader = DataLoader(graphs, batch_size=16, shuffle=True)
convs = nn.ModuleList(GINConv(nn.Sequential(nn.Linear(i, 32), nn.ReLU(), nn.Linear(32, 32))) for i in (16, 32)).cuda()
head = nn.Linear(32, 2).cuda()
optimizer = torch.optim.Adam([*convs.parameters(), *head.parameters()])
for batch in loader:
    batch = batch.to("cuda")
    x = batch.x
    for conv in convs:
        x = conv(x, batch.edge_index).relu()
    out = head(global_add_pool(x, batch.batch, size=batch.num_graphs))
    optimizer.zero_grad()
    nn.functional.cross_entropy(out, batch.y).backward()
    optimizer.step()
