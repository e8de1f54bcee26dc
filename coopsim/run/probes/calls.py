"""Phases of a script's run: training, and what interrupts it: evaluation and generation.

A phase begins with a call of a module from outside of all modules. With gradients it is training, unless the module was
in training mode at earlier calls and no longer is: then it is evaluation, whose torch.no_grad() was forgotten. Without,
it is evaluation if the module is part of one that is trained, or contains one, and generation if a function `generate`
makes the call; other calls, as of a teacher's model, belong to the phase in which they are made. What is called before
anything has been trained counts as evaluation.
"""

import math
import sys
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Literal, TypeAlias

import torch
from torch.nn.modules import module as hooks

from coopsim.record.observe.effects import tensors
from coopsim.record.observe.torch_private import current_graph_task_id
from coopsim.run.probes.probe import Probe
from coopsim.run.process import ProcessReport
from coopsim.run.records import InputSizes

Phase: TypeAlias = Literal["training", "evaluation", "generation"]
_Shape = tuple[int, ...]
_DEEP = 40  #: frames that are looked at, at most
_BATCHES = 2  #: sizes of a batch that are as good as one


class Calls(Probe):
    """Tells of calls of modules from outside of all modules, except those that the backward pass makes.

    `begins` are called with the phase that the call belongs to, None: the one under way; `ends` with the phase and the
    arguments, positional ones and those by name, when the module has returned. `module` is the one that did last.
    `backwards` tells how many backward passes there were.
    """

    def __init__(self, backwards: Callable[[], int] = lambda: 0) -> None:
        self._backwards, self._with_gradients = backwards, 0
        self.begins: list[Callable[[Phase | None], None]] = []
        self.ends: list[Callable[[Phase | None, Any], None]] = []
        self._last: Callable[[], torch.nn.Module | None] = lambda: None
        self._inside = threading.local()
        self._trained: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._in_mode: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()  #: those called in training mode
        self._only: Phase | None = None  #: the phase of all calls with gradients since the last step, if it is one
        self.by_mode = True  #: whether modes tell evaluation: not where steps follow on nothing else

    def install(self) -> None:
        hooks.register_module_forward_pre_hook(self._enter)
        hooks.register_module_forward_hook(self._leave, with_kwargs=True, always_call=True)

    def step_ended(self, _steps: int) -> None:
        """Note the end of an optimizer step: no module is running, even if the hooks of one were not called."""
        self._inside.depth = 0
        if self._only == "evaluation":
            self.by_mode = False
        self._only = None

    def report(self, found: ProcessReport) -> None:
        found.no_backward = 0 if self._backwards() else self._with_gradients

    @property
    def module(self) -> torch.nn.Module | None:
        """The module that returned last to code outside of all modules; None if it is gone."""
        return self._last()

    def _enter(self, module: torch.nn.Module, _: Any) -> None:
        if current_graph_task_id() != -1:  # recomputation
            return
        depth = self._inside.depth = getattr(self._inside, "depth", 0) + 1
        if depth == 1:
            self._inside.phase = phase = self._phase(module, sys._getframe(1))
            for call in self.begins:
                call(phase)

    def _leave(self, module: torch.nn.Module, *given: Any) -> None:
        if current_graph_task_id() != -1:
            return
        depth = self._inside.depth = max(getattr(self._inside, "depth", 1) - 1, 0)
        if depth == 0:
            self._last = weakref.ref(module)
            for call in self.ends:
                call(getattr(self._inside, "phase", None), given[:-1])  # the last one is the result

    def _phase(self, module: torch.nn.Module, frame: FrameType) -> Phase | None:
        if torch.is_grad_enabled():
            self._with_gradients += 1
            if module not in self._trained:
                self._trained.update(module.modules())
            if module.training:
                self._in_mode.add(module)
            evaluates = self.by_mode and not module.training and module in self._in_mode
            phase: Phase = "evaluation" if evaluates else "training"
            self._only = phase if self._only in (None, phase) else "training"
            return phase
        if self._trained and not any(part in self._trained for part in module.modules()):
            return None
        return "generation" if _generates(frame) else "evaluation"


def _generates(frame: FrameType | None) -> bool:
    """Whether a function named `generate` is among the callers of that frame."""
    for _ in range(_DEEP):
        if frame is None:
            return False
        if frame.f_code.co_name == "generate":
            return True
        frame = frame.f_back
    return False


class InputSizesProbe(Probe):
    """The sizes of the inputs that a script trained on: of other sizes than those, nothing is known.

    Notes the shape of the first tensor that each call of a model is given, step by step.
    """

    name = "input_sizes"

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._now: weakref.WeakKeyDictionary[Any, set[_Shape]] = weakref.WeakKeyDictionary()
        self._seen: dict[str, set[frozenset[_Shape]]] = defaultdict(set)  # by model: the shapes of each step

    def install(self) -> None:
        self._calls.ends.append(self._call_ended)

    def step_ended(self, _steps: int) -> None:
        for module, shapes in list(self._now.items()):
            self._seen[f"{type(module).__name__} {id(module)}"].add(frozenset(shapes))
        self._now.clear()

    def report(self, found: ProcessReport) -> None:
        """Report how many shapes were `seen`, and the `largest`, of the model with most; None if no sizes vary.

        The first size is that of the batch, which may be smaller at the end of the data: two of them are alike.
        """
        self.step_ended(0)
        vary = [
            steps
            for steps in self._seen.values()
            if len({_beside_batch(step) for step in steps}) > 1
            or len({shape[0] for step in steps for shape in step}) > _BATCHES
        ]
        if not vary:
            return
        shapes = {shape for step in max(vary, key=len) for shape in step}
        largest = max(shapes, key=lambda shape: (math.prod(shape), shape))
        found.input_sizes = InputSizes(len(shapes), list(largest))

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
