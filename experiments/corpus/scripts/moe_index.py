"""A mixture of experts that gathers each expert's tokens by index: sizes depend on data."""

import torch
from torch import nn

router = nn.Linear(64, 4).cuda()
experts = nn.ModuleList(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)) for _ in range(4)).cuda()
optimizer = torch.optim.AdamW([*router.parameters(), *experts.parameters()])
for _ in range(3):
    x = torch.randn(512, 64, device="cuda")
    weights, chosen = router(x).softmax(-1).topk(2)
    out = torch.zeros_like(x)
    for i, expert in enumerate(experts):
        rows, slot = torch.where(chosen == i)
        out.index_add_(0, rows, expert(x[rows]) * weights[rows, slot, None])
    out.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
