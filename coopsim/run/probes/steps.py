"""Count the optimizer steps of a script, compiled or not."""

import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch.optim import optimizer as optimizers

from coopsim.record.observe.where import Where
from coopsim.run.probes.probe import Probe
from coopsim.run.process import ProcessReport


class Counted:
    """The optimizer whose steps are those of the script: the first that steps, or, once it is gone, the next."""

    def __init__(self) -> None:
        self._optimizer: Callable[[], torch.optim.Optimizer | None] = lambda: None
        self.known = False  #: whether an optimizer has stepped

    def counts(self, optimizer: torch.optim.Optimizer) -> bool:
        """Return whether a step of this optimizer, which has just ended, is one of the script's."""
        if self._optimizer() is None:
            self._optimizer, self.known = weakref.ref(optimizer), True
        return self._optimizer() is optimizer


class Steps(Probe):
    """Counts steps (Counted), and calls `ended` with the number of each, from 1.

    `after_compiled` are called after each step of compiled code, which runs without hooks.
    """

    def __init__(self, where: Where, ended: Callable[[int], None]) -> None:
        self._where, self._ended = where, ended
        self.count = 0
        self.after_compiled: list[Callable[[], None]] = []
        self._backwards = 0  #: backward passes until the last step's end
        self._counted = Counted()
        self._code: CodeType | None = None  #: the compiled code that ended the last step

    def install(self) -> None:
        """Be called after each Optimizer.step, after what has been hooked there before."""
        optimizers.register_optimizer_step_post_hook(self._stepped)

    def run_compiled(self, run: Callable[[], Any], code: CodeType) -> Any:
        """Run compiled code of an optimizer's step, whose hooks are removed meanwhile, and count steps.

        A step may consist of several graphs; one step is counted per backward pass. If the backward pass is compiled,
        too, and so not seen, a step is counted whenever the code that ended the last step runs again.
        """
        with self._where.in_step():
            out = run()
        again = code is self._code or (self._code is None and not self.count)
        if again or self._where.backwards > self._backwards:
            self._code = code
            self._step_ended()
            for call in self.after_compiled:
                call()
        return out

    def report(self, found: ProcessReport) -> None:
        found.steps = self.count

    def _stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._counted.counts(optimizer):
            self._step_ended()

    def _step_ended(self) -> None:
        self.count += 1
        self._backwards = self._where.backwards
        self._ended(self.count)
