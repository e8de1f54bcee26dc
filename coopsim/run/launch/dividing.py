"""A plugin that trains some batches in micro-batches, so that a replay knows what these request.

It divides what a DataLoader yields while gradients are enabled, along the first dimension of its tensors, and skips the
optimizer's step after all parts but the last. Which batches: longrun.schedule.is_divided; the others stay whole.
"""

import functools
import itertools
import weakref
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from coopsim.run.longrun.schedule import is_divided
from coopsim.run.probes.imports import after_import

if TYPE_CHECKING:
    from coopsim.run.probes.watch import Watch


class DividesBatches:
    """`told`: by how much batches are divided."""

    def __init__(self, told: str) -> None:
        self._times = int(told)
        self._count = 0
        self._steps: list[bool] = []  # of each batch or part, in order: whether the optimizer steps after it
        self._rest: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

    def begin(self, _watch: "Watch | None") -> None:
        """Start to divide batches."""
        skip_steps(lambda _, call: call > len(self._steps) or self._steps[call - 1])
        after_import("torch.utils.data.dataloader", self._see)

    def _see(self, module: ModuleType) -> None:
        iterator = module._BaseDataLoaderIter
        original = iterator.__next__

        @functools.wraps(original)
        def advance(of: Any) -> Any:
            if not self._rest.get(of):
                batch = original(of)
                if not torch.is_grad_enabled():
                    return batch
                self._count += 1
                parts = parts_of(batch, self._times) if is_divided(self._count) else None
                self._rest[of] = parts or [batch]
            self._steps.append(len(self._rest[of]) == 1)
            return self._rest[of].pop(0)

        iterator.__next__ = advance

    def forget(self) -> None:
        """Do nothing: a fork takes no training steps."""

    def end(self) -> dict[str, Any]:
        """Nothing to report: the steps that were recorded tell."""
        return {}


def parts_of(batch: Any, times: int) -> list[Any] | None:
    """A batch cut into `times` parts along the first dimension of its tensors, the larger ones first.

    None if its tensors have not one first dimension, or it is too small.
    """
    sizes = {len(tensor) for tensor in _tensors(batch)}
    if len(sizes) != 1 or min(sizes) < times:
        return None
    [size] = sizes
    ends = [size * i // times + (size * i % times > 0) for i in range(times + 1)]
    return [_cut(batch, size, slice(a, b)) for a, b in itertools.pairwise(ends)]


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value] if value.dim() else []
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for one in value for tensor in _tensors(one)]


def _cut(value: Any, size: int, part: slice) -> Any:
    if isinstance(value, torch.Tensor):
        return value[part] if value.dim() else value
    if isinstance(value, Mapping):
        return type(value)({key: _cut(one, size, part) for key, one in value.items()})  # type: ignore[call-arg]
    if isinstance(value, (list, tuple)):
        if len(value) == size and not _tensors(value):
            return value[part]
        cut = [_cut(one, size, part) for one in value]
        return type(value)(*cut) if hasattr(value, "_fields") else type(value)(cut)
    return value


def skip_steps(steps: Callable[[torch.optim.Optimizer, int], bool]) -> None:
    """From now on, an optimizer steps only where `steps` says so, given the number of its call, counted from 1.

    Until it has stepped after a call that was skipped, its gradients are not cleared. To be called before optimizers
    are made.
    """
    due: dict[int, bool] = {}
    counts: dict[int, int] = {}

    def may_clear(owner: Any) -> bool:
        return all(due.values()) if isinstance(owner, nn.Module) else due.get(id(owner), True)

    for owner in (torch.optim.Optimizer, nn.Module):
        conditional(owner, "zero_grad", may_clear)
    original = torch.optim.Optimizer.profile_hook_step

    def profile_hook_step(step: Any) -> Any:
        hooked = original(step)

        @functools.wraps(hooked)
        def sometimes(self: Any, *args: Any, **kwargs: Any) -> Any:
            counts[id(self)] = counts.get(id(self), 0) + 1
            due[id(self)] = steps(self, counts[id(self)])
            return hooked(self, *args, **kwargs) if due[id(self)] else None

        return sometimes

    torch.optim.Optimizer.profile_hook_step = staticmethod(profile_hook_step)  # type: ignore[assignment]


def conditional(owner: Any, name: str, condition: Callable[[Any], bool]) -> None:
    """From now on, calls of a method are skipped, and return None, where `condition` is not met by its object."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def replaced(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs) if condition(self) else None

    setattr(owner, name, replaced)


PLUGIN = DividesBatches
