"""Measure what a script's steps cost, by the prices of classes and by the phantom's clock, and where memory peaks."""

from collections import Counter
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch.optim import optimizer as hooks

from coopsim.cards import prices, profiles
from coopsim.cards.prices import Call
from coopsim.phantom.control import Control
from coopsim.record.observe import effects, inductor
from coopsim.record.observe.private import hooked
from coopsim.run.probes import clock
from coopsim.run.probes.imports import after_import
from coopsim.run.probes.steps import Counted


class StepMeter:
    """Sums up the costs of ops. A step ends when the optimizer that counts has stepped (Counted).

    `in_block` is called for every op that makes or changes data: with its name, its cost in ns, and the bytes it makes.
    """

    def __init__(self, recorder: Any, *, in_block: Callable[[str, int, int], None]) -> None:
        self._model = recorder.cost_model
        self._total = self._optimizing = 0
        self._in_optimizer = 0
        self._control = Control()
        self._counted = Counted()
        self._marks: list[tuple[int, int, int]] = []
        self._calls: Counter[Call] = Counter()
        self._calls_of_steps: Counter[Call] = Counter()
        self._peak_before = 0
        self._rose = self._comparing = False
        self._logits = 0
        recorder.seen = self._op
        self._in_block = in_block
        hooks.register_optimizer_step_pre_hook(self._begins)
        hooks.register_optimizer_step_post_hook(self._ends)
        after_import(inductor.LAUNCHER, lambda _: inductor.around_kernels(self._launched))
        after_import("triton.runtime.jit", self._triton)
        after_import("triton.runtime.autotuner", self._autotuner)

    def _launched(self, launch: Callable[[], Any], _: Any, args: Sequence[Any]) -> Any:
        self._kernel(clock.nbytes(args))
        return launch()

    def _triton(self, module: ModuleType) -> None:
        """Cost kernels that the script or a library wrote in Triton by the bytes of their operands, too.

        Their arithmetic is not known. What triton.autotune launches to compare configurations is not counted.
        """

        def run(launch: Any, kernel: Any, *args: Any, warmup: bool = False, **kwargs: Any) -> Any:
            if not warmup and not self._comparing:
                self._kernel(clock.nbytes((*args, *kwargs.values())))
            return launch(kernel, *args, warmup=warmup, **kwargs)

        module.JITFunction.run = hooked(module.JITFunction.run, run)

    def _autotuner(self, module: ModuleType) -> None:
        def compare(bench: Any, *args: Any, **kwargs: Any) -> Any:
            self._comparing = True
            try:
                return bench(*args, **kwargs)
            finally:
                self._comparing = False

        module.Autotuner._bench = hooked(module.Autotuner._bench, compare)

    def _kernel(self, nbytes: int) -> None:
        """Add the cost of a compiled kernel that moves so many bytes."""
        self._calls[Call(nbytes=nbytes)] += 1
        self._add(self._model.moving(nbytes))

    def _add(self, cost: int) -> None:
        self._total += cost
        if self._in_optimizer:
            self._optimizing += cost

    def _op(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, made: bool) -> None:
        if not hasattr(func, "_schema"):
            return
        named = effects.arguments(func, args, kwargs)
        changed = effects.mutated(func, named)
        if not made and not changed:
            return
        nbytes = sum(clock.nbytes(value) * (2 if name in changed else 1) for name, value in named.items())
        made_bytes = clock.nbytes(out) if made else 0
        if str(func) == "aten._log_softmax.default":
            self._logits = max(self._logits, made_bytes)
        nbytes += made_bytes
        call = self._model.call(func, args, kwargs, named, out, nbytes)
        self._calls[call] += 1
        cost = self._model.nanoseconds(str(func), call)
        self._add(cost)
        self._in_block(str(func), cost, made_bytes)

    def _begins(self, *_: Any) -> None:
        self._in_optimizer += 1
        self._peak_before = _peak()

    def _ends(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self._in_optimizer -= 1
        self._rose |= _peak() > self._peak_before
        if self._counted.counts(optimizer):
            self._mark_step()

    def compiled_step_ended(self) -> None:
        """Mark the end of a compiled step, whose hooks are not called."""
        self._mark_step()

    def _mark_step(self) -> None:
        self._marks.append(self._mark())
        if len(self._marks) == 1:
            self._calls.clear()
        else:
            self._calls_of_steps = self._calls.copy()

    def _on_cards(self, steps: int) -> dict[str, float]:
        """Return a step's mean ns on every known card, by prices of classes, from the calls of these steps."""
        calls = self._calls_of_steps or self._calls
        found = {}
        for name in profiles.names():
            card = profiles.get(name)
            table = prices.table(card, card.prices, card.measured_by)
            found[name] = sum(n * table.price(call) for call, n in calls.items()) / steps
        return found

    def _mark(self) -> tuple[int, int, int]:
        """Return the ns of all ops so far, of optimizers' ops, and the end of the current stream by the clock.

        The stream ends after what it waits for on other streams.
        """
        return self._total, self._optimizing, self._control.stream_end_ns(clock.stream())

    def found(self) -> dict[str, Any]:
        """Return the figures for the report. `step_ns`, `optimizer_ns`: means of a step, and of its optimizer's part.

        They are by prices of classes, without the first step; of a run with fewer than two, those of the whole run.
        `clock_step_ns`: the mean by the phantom's clock, which includes collectives and overlap. `step_ns_by_card`:
        `step_ns` on every known card. `peak_in_optimizer`: whether memory peaked in an optimizer's step.
        `logits_bytes`: the largest result of a log-softmax. `basis`: what the prices rest on, in one line. `precision`:
        that of float32 products (Precisions.text).
        """
        marks = self._marks if len(self._marks) > 1 else [(0, 0, 0), self._mark()]
        step, optimizer, clocked = (
            (last - first) / (len(marks) - 1) for first, last in zip(marks[0], marks[-1], strict=True)
        )
        return {
            "step_ns": step,
            "optimizer_ns": optimizer,
            "clock_step_ns": clocked,
            "step_ns_by_card": self._on_cards(len(marks) - 1),
            "peak_in_optimizer": self._rose,
            "logits_bytes": self._logits,
            "basis": self._model.source,
            "precision": self._model.precision,
        }


def _peak() -> int:
    return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_initialized() else 0  # type: ignore[no-untyped-call]
