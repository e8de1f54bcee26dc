"""Pipelines of two stages side by side: each stage shared by FSDP2 (`fsdp`) or DDP, 1F1B or `gpipe`."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn.parallel import DistributedDataParallel

STAGES, MICRO_BATCHES = 2, 8
world, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (world // STAGES, STAGES), mesh_dim_names=("dp", "pp"))
place = mesh["pp"].get_local_rank()
layers = nn.Sequential(*[nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(2)]).cuda()
if "fsdp" in sys.argv:
    for part in (*layers, layers):
        fully_shard(part, mesh=mesh["dp"])
else:
    layers = DistributedDataParallel(layers, device_ids=[local], process_group=mesh["dp"].get_group())
stage = PipelineStage(layers, place, STAGES, torch.device("cuda", local), group=mesh["pp"].get_group())
kind = ScheduleGPipe if "gpipe" in sys.argv else Schedule1F1B
schedule = kind(stage, n_microbatches=MICRO_BATCHES, loss_fn=lambda y, target: (y - target).square().mean())
optimizer = torch.optim.AdamW(layers.parameters())
x = torch.randn(2 * MICRO_BATCHES, 128, 256, device="cuda")
for _ in range(3):
    if place == 0:
        schedule.step(x)
    else:
        schedule.step(target=x, losses=[])
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
