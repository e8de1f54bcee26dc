"""FSDP2 of a small stack of layers: meta device, fully_shard of each, bf16, AdamW, clipped gradients."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

rank, local, world = (int(os.environ[key]) for key in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
torch.cuda.set_device(local)
bound = torch.device("cuda", local) if "--bound" in sys.argv else None
dist.init_process_group("nccl", device_id=bound)
mesh = init_device_mesh("cuda", (world,))
with torch.device("meta"):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(6)])
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model:
    fully_shard(layer, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
model.to_empty(device="cuda")
for module in model.modules():
    if isinstance(module, nn.Linear):
        module.reset_parameters()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(3):
    loss = model(torch.randn(512, 256, device="cuda")).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
everyone: list[object] = [None] * world
dist.all_gather_object(everyone, {"world": world})
assert everyone == [{"world": world}] * world
parts = [torch.zeros(2, dtype=torch.long, device="cuda") for _ in range(world)]
parts[rank].copy_(torch.tensor([7, world]))
with dist._coalescing_manager(device=torch.device("cuda", local)):  # so PyTorch 2.15 gathers a list
    for source, part in enumerate(parts):
        dist.broadcast(part, src=source)
assert [part.tolist() for part in parts] == [[7, world]] * world
dist.barrier()
dist.destroy_process_group()
