"""FSDP2 with clipped gradients; its state is saved by torch.distributed.checkpoint, loaded in new objects, and used."""

import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

WIDTH, LAYERS, SEEN = 256, 4, torch.arange(5)

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
world, rank = dist.get_world_size(), dist.get_rank()


def made() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]).cuda()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4)


def trained(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randn(64, WIDTH, device="cuda")).square().mean().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert isinstance(norm, DTensor)
    assert norm.full_tensor().shape == ()
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert parameter.grad is gradient  # clipped in place
        assert gradient.to_local().shape[0] == parameter.shape[0] // world
    optimizer.step()
    optimizer.zero_grad()


def state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, object]:
    of_model, of_optimizer = get_state_dict(model, optimizer)
    return {"model": of_model, "optimizer": of_optimizer}


with tempfile.TemporaryDirectory() as folder:
    told = [folder]
    dist.broadcast_object_list(told, src=0)
    checkpoint = Path(told[0]) / "checkpoint"
    pair = made()
    trained(*pair)
    trained(*pair)
    dcp.save({**state(*pair), "seen": SEEN, "epoch": 3}, checkpoint_id=checkpoint)
    assert {file.name for file in checkpoint.iterdir()} >= {".metadata", f"__{rank}_0.distcp"}
    del pair
    pair = made()
    found = {**state(*pair), "seen": torch.zeros_like(SEEN), "epoch": 0}
    dcp.load(found, checkpoint_id=checkpoint)
    assert (found["epoch"], found["seen"].tolist()) == (3, SEEN.tolist())
    set_state_dict(*pair, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
    moments = [value for one in pair[1].state.values() for value in one.values() if value.ndim]
    assert len(moments) == 2 * 2 * LAYERS
    assert sum(value.to_local().numel() for value in moments) == 2 * LAYERS * (WIDTH * WIDTH + WIDTH) // world
    trained(*pair)
    dist.barrier()
dist.destroy_process_group()
