"""Tensor parallelism over 2 ranks, FSDP2 over what is left of the world; a sharded checkpoint at the end."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

world, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
mesh = init_device_mesh("cuda", (world // 2, 2), mesh_dim_names=("dp", "tp"))
with torch.device("meta"):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(4)])
for layer in model:
    parallelize_module(layer, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    if world > 2:
        fully_shard(layer, mesh=mesh["dp"])
if world > 2:
    fully_shard(model, mesh=mesh["dp"])
model.to_empty(device="cuda")
for parameter in model.parameters():
    nn.init.trunc_normal_(parameter, std=0.02)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(3):
    model(torch.randn(512, 256, device="cuda")).square().mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
with tempfile.TemporaryDirectory() as folder:
    dcp.save({"model": model.state_dict()}, checkpoint_id=f"{folder}/checkpoint")
dist.destroy_process_group()
