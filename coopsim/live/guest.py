"""In the processes of a script: a step is what lies between two calls of Optimizer.step. Called by coopsim.script."""

import json
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from coopsim.live.budget import Budget
from coopsim.live.errors import LiveError


class Guest:
    """Steps of a script that does not know of them. The first begins when the first module is called."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._clock: int | None = None  # the first optimizer that steps
        self._failed = ""
        self._first = modules.register_module_forward_pre_hook(self._begin)
        optimizers.register_optimizer_step_post_hook(self._stepped)

    def _begin(self, *_: Any) -> None:
        self._first.remove()
        self._start()

    def _start(self) -> None:
        try:
            self._budget.session.begin()
        except LiveError as error:
            self._failed = str(error)
            raise

    def _stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """After Optimizer.step."""
        if self._clock is None:
            self._clock = id(optimizer)
        if id(optimizer) == self._clock and self._budget.session.inside:
            self._budget.session.end()
            self._start()

    def end(self) -> dict[str, Any]:
        """The report. What ran since the last call of Optimizer.step is no step."""
        if self._budget.session.inside:
            self._budget.session.abandon()
        return self._budget.report() | {"failed": self._failed}


def begin(_watch: Any, told: str) -> Guest:
    """torch is there. told: the arguments of Budget, as JSON."""
    return Guest(Budget(**json.loads(told)))
