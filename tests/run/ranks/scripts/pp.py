"""A pipeline of torch.distributed.pipelining: a stack of encoder layers, one stage per rank, 1F1B."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

rank, world, local = (int(os.environ[key]) for key in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
torch.cuda.set_device(local)
device = torch.device("cuda", local)
dist.init_process_group("nccl", device_id=device)
layers = nn.Sequential(*[nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(2)]).to(device)
number = max(8, world)  # of micro-batches
x = torch.randn(2 * number, 128, 256, device=device)
stage = PipelineStage(layers, rank, world, device)
schedule = Schedule1F1B(stage, n_microbatches=number, loss_fn=lambda y, target: (y - target).square().mean())
optimizer = torch.optim.AdamW(layers.parameters())
for _ in range(3):
    if rank == 0:
        schedule.step(x)
    elif rank == world - 1:
        schedule.step(target=x, losses=[])
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
