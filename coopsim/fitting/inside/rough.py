"""A rough answer before the first step: what parameters, gradients and the optimizer's state take at least."""

import json
import os
from typing import Any

import torch

from coopsim.base.files import replacing
from coopsim.fitting.searching.progress import VARIABLE
from coopsim.record.observe import roles
from coopsim.record.observe.native import memory
from coopsim.run.probes.calls import Phase

#: Copies of the parameters in the state of optimizers, by the names of their classes; of others nothing is known.
_COPIES = {"Adam": 2, "AdamW": 2, "NAdam": 2, "RAdam": 2, "Adamax": 2, "RMSprop": 1, "Adagrad": 1, "Lion": 1}


class Rough:
    """Writes the answer to the file that is named in the environment, when a model is first called with gradients."""

    def __init__(self) -> None:
        self._file = os.environ.get(VARIABLE, "")

    def call_begins(self, phase: Phase | None) -> None:
        """Note that a module is called from outside."""
        if not self._file or phase != "training":
            return
        file, self._file = self._file, ""
        with replacing(file) as part:
            part.write_text(json.dumps(_found()), encoding="utf-8")


def _found() -> dict[str, Any]:
    objects = roles.Objects.now()
    parameters = [(p.requires_grad, *memory(_shard(p))) for p in objects.parameters() if p.is_cuda]
    sizes = {address: nbytes for _, address, nbytes in parameters}
    trained = {address: nbytes for trains, address, nbytes in parameters if trains}
    states: dict[str, int] = {}
    for optimizer in objects.optimizers:
        kind = type(optimizer).__name__
        copies = _COPIES.get(kind, int(any(group.get("momentum") for group in getattr(optimizer, "param_groups", ()))))
        of = [p for group in getattr(optimizer, "param_groups", ()) for p in group["params"]]
        shards = [_shard(p) for p in of if isinstance(p, torch.Tensor) and p.is_cuda and p.requires_grad]
        nbytes = sum(shard.numel() * shard.element_size() for shard in shards)
        if copies and nbytes:
            states[kind] = states.get(kind, 0) + copies * nbytes
    return {"parameters": sum(sizes.values()), "gradients": sum(trained.values()), "states": states}


def _shard(parameter: torch.Tensor) -> torch.Tensor:
    """Return what this rank holds of a parameter: a shard, or the parameter itself."""
    return parameter.to_local() if hasattr(parameter, "to_local") else parameter
