"""The plugin of `fit` (run/launch/plugin.py) in a script's process: makes changes, and surveys the script."""

import sys
from typing import Any

from coopsim.fitting.changes import Changes
from coopsim.fitting.inside import accumulating, arguments, batches, lines, optimizers, precision, sharded
from coopsim.fitting.inside.blocks import BlockMeter
from coopsim.fitting.inside.meter import StepMeter
from coopsim.fitting.inside.models import Models
from coopsim.fitting.inside.rough import Rough
from coopsim.record.observe import torch_private
from coopsim.run.probes.watch import Watch

_config: Any = torch_private.get("torch._functorch.config")  #: of AOTAutograd's partitioner


class ChangesPlugin:
    """Makes changes in a script's process and surveys it. `told` is the message of the changes (Changes.message)."""

    def __init__(self, told: str) -> None:
        self._changes = Changes.read(told)

    def begin(self, watch: Watch | None) -> None:
        """Make the changes, and start to survey the script; to be called once, before the script begins.

        Some changes are made to each model at its first call. `watch` must not be None.
        """
        assert watch is not None, "fit runs scripts on the phantom GPU"
        changes = self._changes
        self._where = watch.recorder.where
        self._models = Models()
        self._blocks = BlockMeter(self._models)
        self._meter = StepMeter(watch.recorder, in_block=self._blocks.op)
        watch.after_compiled_step.append(self._meter.compiled_step_ended)
        watch.calls.begins.append(Rough().call_begins)
        self._optimizers = optimizers.Optimizers()
        lines.install(changes, self._models)
        if changes.autocast:
            precision.autocast(self._models, changes.models)
        if changes.bf16_weights:
            precision.convert(self._models, changes.models)
        self._batches = batches.Batches(changes)
        self._arguments = arguments.Arguments()
        self._sharded = sharded.Sharded(changes)
        self._partitioner = Partitioner(changes.activation_memory_budget)
        watch.compilation.before.append(self._partitioner.set)
        optimizers.install(changes)
        if changes.hold_gradients or changes.accumulate > 1:
            accumulating.accumulate(changes)

    def forget(self) -> None:
        """Do nothing: a fork takes no training steps."""

    def end(self) -> dict[str, Any]:
        """Return what the survey has found, as survey.read expects it."""
        found = self._models.found(self._optimizers.parameters)
        return {
            "models": [about | {"levels": self._blocks.levels(i)} for i, about in enumerate(found)],
            "optimizers": self._optimizers.found(),
            "sharding": self._sharded.found(),
            "deferred": self._sharded.deferred(),
            "batches": self._batches.found(),
            "options": self._arguments.found(),
            "trainer": "transformers.trainer" in sys.modules,
            "backwards": self._where.backwards,
            "own_memory_budgets": self._partitioner.own,
            **self._meter.found(),
        }


class Partitioner:
    """Sets activation_memory_budget to `budget` before each graph is compiled; None leaves the script's.

    `own`: the values that the script itself had set, other than PyTorch's default, each once.
    """

    def __init__(self, budget: float | None) -> None:
        self._budget = budget
        self.own: list[float] = []

    def set(self) -> None:
        """Set the budget, and note the value that the script had set; the caller calls it before each compilation."""
        found = _config.activation_memory_budget
        if found not in (1.0, self._budget, *self.own):
            self.own.append(found)
        if self._budget is not None:
            _config.activation_memory_budget = self._budget
