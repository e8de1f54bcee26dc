"""Two ranks that the script starts itself, by mp.spawn: spawn.py BACKEND [fail]."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank: int, world: int) -> None:
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29511"
    torch.cuda.set_device(rank)
    dist.init_process_group(sys.argv[1], rank=rank, world_size=world)
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for _ in range(2):
        ddp(torch.randn(8, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.all_reduce(torch.ones(4, device="cuda"))
    if sys.argv[2:] == ["fail"]:
        raise ValueError("its own error")
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(2,), nprocs=2)
