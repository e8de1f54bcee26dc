"""The sizes of the inputs that a script trained on: of other sizes than those, nothing is known."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from coopsim.observe.effects import tensors
from coopsim.script.phases import Calls, Phase

_Shape = tuple[int, ...]


class InputSizes:
    """Notes the shape of the first tensor that each call of a model is given, step by step."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._now: WeakKeyDictionary[Any, set[_Shape]] = WeakKeyDictionary()
        self._seen: dict[str, set[frozenset[_Shape]]] = defaultdict(set)  # by model: the shapes of each step
        calls.ends.append(self._call_ended)

    def step_ended(self) -> None:
        """Note the end of an optimizer step."""
        for module, shapes in list(self._now.items()):
            self._seen[f"{type(module).__name__} {id(module)}"].add(frozenset(shapes))
        self._now.clear()

    def report(self) -> dict[str, Any] | None:
        """Return how many shapes were `seen`, and the `largest`, of the model with most; None if no sizes vary.

        The first size is that of the batch, which may be smaller at the end of the data.
        """
        self.step_ended()
        vary = [steps for steps in self._seen.values() if len({_beside_batch(step) for step in steps}) > 1]
        if not vary:
            return None
        shapes = {shape for step in max(vary, key=len) for shape in step}
        largest = max(shapes, key=lambda shape: (math.prod(shape), shape))
        return {"seen": len(shapes), "largest": list(largest)}

    def _call_ended(self, phase: Phase | None, given: Sequence[Any]) -> None:
        module = self._calls.module
        if phase != "training" or module is None:
            return
        values = [value for part in given for value in (part.values() if isinstance(part, dict) else part)]
        first = next(tensors(values), None)
        if first is not None and first.dim():
            self._now.setdefault(module, set()).add(tuple(first.shape))


def _beside_batch(step: frozenset[_Shape]) -> frozenset[_Shape]:
    return frozenset(shape[1:] for shape in step)
