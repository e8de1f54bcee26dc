"""What DeepSpeed's ZeRO keeps, in its attributes and by its ops: shards, flat buffers, gathered layers, buckets."""

import os
import sys
import types

import torch
import torch.distributed as dist

sys.modules["deepspeed"] = types.ModuleType("deepspeed")  # the real one is large, and loads its own ops
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
ranks, n = dist.get_world_size(), 1 << 20


def empty(*size, dtype=torch.bfloat16):
    return torch.empty(*size, dtype=dtype, device="cuda")


class Wrapper:
    def __init__(self):
        master = torch.nn.Parameter(empty(n // ranks, dtype=torch.float32))
        self.optimizer = torch.optim.AdamW([master])
        self.bit16_flat = [empty(n // ranks)]
        self.grad_partitions_flat_buffer = empty(n // ranks)
        self.ipg_buckets = {torch.bfloat16: types.SimpleNamespace(buffer=empty(2 * n))}


class Engine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(empty(0))
        self.optimizer = Wrapper()
        self.weight.ds_tensor = self.optimizer.bit16_flat[0].narrow(0, 0, n // 2 // ranks)
        self.weight.ds_secondary_tensor = empty(n // 4)

    def forward(self, x):
        gathered = empty(n)
        dist.all_gather_into_tensor(gathered, self.optimizer.bit16_flat[0])
        self.whole = torch.cat([gathered[: n // 2], gathered[n // 2 :]])
        return x * 2


engine = Engine()
x = torch.ones(8, device="cuda", requires_grad=True)
for _ in range(3):
    engine(x).sum().backward()
    pieces = empty(3 * n)  # gradients that the reduced ones are put together from
    flat = torch.cat([pieces[:n], pieces[n : 2 * n]])
    dist.all_reduce(flat)
    state = engine.optimizer.optimizer
    state.param_groups[0]["params"][0].grad = empty(n // ranks, dtype=torch.float32)
    state.step()
    dist.all_reduce(state.param_groups[0]["params"][0].data)  # parameters that are averaged are no bucket
    del flat, pieces, engine.whole
