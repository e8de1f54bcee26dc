"""Survey and change how optimizers step, and how gradients are cleared."""

import sys
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.optim import optimizer as hooks

from coopsim.fitting.changes import Changes
from coopsim.record.observe.private import hooked
from coopsim.run.probes.places import is_own

_OWNERS: tuple[Any, ...] = (torch.optim.Optimizer, nn.Module)  #: classes with a method zero_grad


class Optimizers:
    """Surveys the script's optimizers, and its calls of zero_grad."""

    def __init__(self) -> None:
        self.parameters: set[int] = set()  #: ids of the optimizers' parameters, which live as long as the optimizers
        self._made: dict[int, tuple[str, str, int]] = {}
        self._seen: dict[int, dict[str, Any]] = {}
        self._clears: list[dict[str, Any]] = []
        self._skips = False
        hooks.register_optimizer_step_pre_hook(self._steps)
        hooks.register_optimizer_step_post_hook(self._stepped)
        torch.optim.Optimizer.__init__ = hooked(torch.optim.Optimizer.__init__, self._init)  # type: ignore[method-assign]
        for owner in _OWNERS:
            owner.zero_grad = hooked(owner.zero_grad, self._zero_grad)

    def _init(self, original: Any, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        self._made[id(optimizer)] = (type(optimizer).__name__, *_place())
        original(optimizer, *args, **kwargs)
        self._has(optimizer)

    def _has(self, optimizer: torch.optim.Optimizer) -> None:
        self.parameters |= {id(p) for group in optimizer.param_groups for p in group["params"]}

    def _steps(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._has(optimizer)
        self._skips |= any(
            p.grad is None for group in optimizer.param_groups for p in group["params"] if p.requires_grad
        )
        if id(optimizer) in self._seen or id(optimizer) not in self._made:
            return
        name, file, line = self._made[id(optimizer)]
        group = optimizer.param_groups[0]
        self._seen[id(optimizer)] = {
            "type": name,
            "torch": type(optimizer).__module__.startswith("torch.optim."),
            "file": file,
            "line": line,
            "state_bytes": 0,
            "foreach": _foreach(group),
            "fused": group.get("fused"),
            "has_fused": "fused" in group and not group.get("differentiable") and not group.get("amsgrad"),
        }

    def _stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        found = self._seen.get(id(optimizer))
        if found is not None and found["state_bytes"] == 0:
            state = getattr(optimizer, "state", {}).values()
            tensors = [v for s in state if isinstance(s, dict) for v in s.values() if isinstance(v, torch.Tensor)]
            found["state_bytes"] = sum(t.numel() * t.element_size() for t in tensors if t.is_cuda)

    def _zero_grad(self, original: Any, owner: Any, set_to_none: bool = True) -> None:
        if not set_to_none:
            file, line = _place()
            self._clears.append({"file": file, "line": line})
        original(owner, set_to_none)

    def found(self) -> dict[str, Any]:
        """Return the survey for the report.

        stepped: the optimizers that stepped, as dicts of the fields of survey.Optimizer. zeroed: file and line of calls
        of zero_grad with set_to_none=False. skips: whether an optimizer was given parameters without gradient.
        """
        clears = list({(c["file"], c["line"]): c for c in self._clears}.values())
        return {"stepped": list(self._seen.values()), "zeroed": clears, "skips": self._skips}


def install(changes: Changes) -> None:
    """From now on, set `changes.foreach` and `fused` of every optimizer at its first step, where they are not None.

    With `changes.set_to_none`, every zero_grad sets gradients to None, whatever it is called with.
    """
    if changes.set_to_none:
        for owner in _OWNERS:
            owner.zero_grad = hooked(owner.zero_grad, _to_none)
    if changes.foreach is None and changes.fused is None:
        return
    done: set[int] = set()

    def step(optimizer: Any, *_: Any) -> None:
        if id(optimizer) in done or "foreach" not in optimizer.defaults:
            return
        done.add(id(optimizer))
        for group in optimizer.param_groups:
            if changes.foreach is not None:
                group["foreach"] = changes.foreach
            if changes.fused is not None and "fused" in group:
                group["foreach"], group["fused"] = False, changes.fused
                optimizer._step_supports_amp_scaling = True

    hooks.register_optimizer_step_pre_hook(step)


def _to_none(original: Any, owner: Any, set_to_none: bool = True) -> None:  # noqa: ARG001 (what is overruled)
    original(owner, True)


def _foreach(group: dict[str, Any]) -> bool:
    """Return whether an optimizer updates many parameters at once (foreach), as it does on the GPU by default."""
    if "foreach" not in group or group.get("fused"):
        return False
    return group["foreach"] is not False


def _place() -> tuple[str, int]:
    """Return file and line of the innermost frame of the user's code; "" and 0 if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0
