"""What is allocated besides the values of a compiled graph, as far as that is known when it is compiled."""

import gc

import torch

from coopsim.observe.torch_private import clear_workspaces

#: States of PyTorch's optimizers that come with their first step: numbers per number of a parameter.
STATES = {"Adam": 2, "AdamW": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "Adadelta": 2, "RMSprop": 1, "Muon": 1}


def resident_bytes() -> int:
    """Allocated now, cuBLAS's workspaces for the forward and the backward thread, and states of optimizers to come."""
    clear_workspaces()
    bare = torch.cuda.memory_allocated()
    torch.cuda.current_blas_handle()  # type: ignore[no-untyped-call]
    workspace = torch.cuda.memory_allocated() - bare
    return bare + 2 * workspace + sum(map(_states, _optimizers()))


def _optimizers() -> list[torch.optim.Optimizer]:
    return [one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer)]


def _states(optimizer: torch.optim.Optimizer) -> int:
    total = 0
    for group in optimizer.param_groups:
        each = (
            STATES.get(type(optimizer).__name__, 0) + (1 if group.get("momentum") else 0) + bool(group.get("amsgrad"))
        )
        each -= type(optimizer).__name__ == "Muon" and bool(group.get("momentum"))
        for parameter in group["params"]:
            if parameter.is_cuda and parameter not in optimizer.state:
                total += each * -(-parameter.untyped_storage().nbytes() // 512) * 512
    return total
