"""A rough answer before the first step: what parameters, gradients and the optimizer's state take at least."""

import json
import os
from typing import Any

import torch

from coopsim.fit.searching.progress import VARIABLE
from coopsim.observe import roles
from coopsim.observe.native import memory
from coopsim.script.watching.calls import Phase

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
        part = f"{file}.{os.getpid()}"
        with open(part, "w", encoding="utf-8") as out:
            json.dump(_found(), out)
        os.replace(part, file)


def _found() -> dict[str, Any]:
    objects = roles.Objects.now()
    sizes = {memory(p)[0]: memory(p)[1] for p in objects.parameters() if p.is_cuda}
    trained = {memory(p)[0]: memory(p)[1] for p in objects.parameters() if p.is_cuda and p.requires_grad}
    states: dict[str, int] = {}
    for optimizer in objects.optimizers:
        kind = type(optimizer).__name__
        copies = _COPIES.get(kind, int(any(group.get("momentum") for group in getattr(optimizer, "param_groups", ()))))
        of = [p for group in getattr(optimizer, "param_groups", ()) for p in group["params"]]
        nbytes = sum(p.numel() * p.element_size() for p in of if isinstance(p, torch.Tensor) and p.is_cuda)
        if copies and nbytes:
            states[kind] = states.get(kind, 0) + copies * nbytes
    return {"parameters": sum(sizes.values()), "gradients": sum(trained.values()), "states": states}
