"""What the phantom's clock says, as one JSON object on stdout. H100: kernels move 2680 bytes a ns, NCCL 360."""

import json
import os
import time

import torch
import torch.distributed as dist

from coopsim.phantom.control import Control

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
control = Control()
MANY, KERNELS, RECORDED = 256 << 20, 1100, 600


def passed(since: int) -> int:
    return control.now_ns - since


def active() -> int:
    return torch.cuda.memory_stats()["active_bytes.all.current"]


def held_for(*, synchronized: bool) -> int:
    """Requests until memory that a side stream uses is free."""
    x = torch.empty(MANY, dtype=torch.uint8, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x.bitwise_not_()
    x.record_stream(side)
    before = active()
    del x
    if synchronized:
        torch.cuda.synchronize()
    for request in range(1, 100):
        torch.empty(1, device="cuda")
        if active() < before - MANY // 2:
            return request
    return 0


x = torch.ones(MANY, dtype=torch.uint8, device="cuda")
keep = torch.ones(1, device="cuda")  # a segment of small blocks is there
dist.all_reduce(x)  # so is a communicator
held_for(synchronized=True)  # so is a segment for that
said = {"held": held_for(synchronized=False), "held_synchronized": held_for(synchronized=True)}

torch.cuda.synchronize()
start = control.now_ns
dist.all_reduce(x)
torch.cuda.synchronize()
said["all_reduce_ns"] = passed(start)

start = control.now_ns
for _ in range(KERNELS):
    x.bitwise_not_()
said["host_ns"] = passed(start)
keep.item()
said["item_ns"] = passed(start)

event = torch.cuda.Event()
start = control.now_ns
for _ in range(RECORDED):
    x.bitwise_not_()
    event.record()
said["recorded_ns"] = passed(start)
torch.cuda.synchronize()

start = control.now_ns
time.sleep(0.01)
said["sleep_ns"] = passed(start)

start = control.now_ns
x.bitwise_not_()
event.record()
said["queries"] = [event.query(), event.query(), event.query()]
said["polled_ns"] = passed(start)
print(json.dumps(said), flush=True)
optimizer = torch.optim.SGD([torch.ones(1, device="cuda", requires_grad=True)])
optimizer.step()
dist.all_reduce(x)  # its group ends while it is under way, and waits for it
dist.destroy_process_group()
