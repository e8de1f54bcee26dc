"""DDP on inputs of many lengths; later ranks have more rows. `leaks`: outputs are kept."""

import os
import random
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
source, kept = random.Random(7), []
net = DistributedDataParallel(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda())
optimizer = torch.optim.AdamW(net.parameters())
for i in range(1, 301):
    out = net(torch.zeros(16 + 8 * dist.get_rank(), 8 * source.randrange(2, 33), 256).cuda())
    out.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if "leaks" in sys.argv:
        kept.append(out[:, :16].detach().clone())
    if i % 10 == 0:
        torch.cuda.empty_cache()
dist.destroy_process_group()
