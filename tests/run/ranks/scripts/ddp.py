"""DDP of a small convolutional network, with a parameter that is not always used, as in PyTorch's tutorials."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Network(nn.Module):
    """Two heads, of which one is used."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(8))
        self.heads = nn.ModuleList(nn.Linear(64 * 64, 1000) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.heads[0](self.body(x).flatten(1))


dist.init_process_group("nccl")
rank, local, world = dist.get_rank(), int(os.environ["LOCAL_RANK"]), dist.get_world_size()
torch.cuda.set_device(local)
torch.manual_seed(0)
model = DistributedDataParallel(Network().to(local), device_ids=[local], find_unused_parameters=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
data = TensorDataset(torch.randn(world * 12, 3, 32, 32), torch.randint(0, 1000, (world * 12,)))
steps = 0
for images, labels in DataLoader(data, batch_size=4, sampler=DistributedSampler(data), pin_memory=True):
    loss = nn.functional.cross_entropy(model(images.to(local)), labels.to(local))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(loss, op=dist.ReduceOp.AVG)
    steps += 1
assert steps == 3
seeds = [rank + 41]
dist.broadcast_object_list(seeds, src=0)
dist.barrier()
dist.destroy_process_group()
