"""One of several ranks, by FSDP1, or by FSDP2 with "2": layers stay gathered, and gathers ahead have no limit."""

import os
import sys

import torch
from torch import distributed, nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP  # noqa: N817
from torch.distributed.fsdp import ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

distributed.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
layers = [nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(8)]
model = nn.Sequential(*layers).cuda()
if "2" in sys.argv:
    for layer in layers:
        fully_shard(layer, reshard_after_forward=False)
    fully_shard(model)
else:
    for i in range(8):
        model[i] = FSDP(
            layers[i],
            sharding_strategy=ShardingStrategy.SHARD_GRAD_OP,
            auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
            limit_all_gathers=False,
        )
    model = FSDP(model, limit_all_gathers=False)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(3):
    model(torch.randn(512, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
distributed.destroy_process_group()
