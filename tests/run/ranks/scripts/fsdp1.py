"""FSDP1 of a small transformer: weights on the meta device, sync_module_states, clipped gradients."""

import functools
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

dist.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
with torch.device("meta"):
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
model = FullyShardedDataParallel(
    model,
    auto_wrap_policy=functools.partial(
        transformer_auto_wrap_policy, transformer_layer_cls={nn.TransformerEncoderLayer}
    ),
    mixed_precision=MixedPrecision(torch.bfloat16, torch.float32, torch.bfloat16),
    device_id=local,
    use_orig_params=True,
    param_init_fn=lambda module: module.to_empty(device="cuda", recurse=False),
    sync_module_states=True,
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(3):
    model(torch.randn(4, 128, 256, device="cuda")).float().square().mean().backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
