"""In the processes of a script: a step is what lies between two calls of Optimizer.step. Called by coopsim.script.

Hooks of modules and optimizers will not do: a step installs some itself, which must not be while hooks run.
"""

import functools
import json
from typing import Any

import torch

from coopsim.live.budget import Budget
from coopsim.live.errors import DoesNotFit


class Guest:
    """Steps of a script that does not know of them. The first begins when the first module is called."""

    def __init__(self, budget: Budget) -> None:
        self._session = budget.session
        self._budget = budget
        self._clock: int | None = None  # the first optimizer that steps
        self._depth = 0
        self._call_module = torch.nn.Module.__call__
        self._make_optimizer = torch.optim.Optimizer._patch_step_function
        torch.nn.Module.__call__ = self._first_call()  # type: ignore[method-assign]
        torch.optim.Optimizer._patch_step_function = self._optimizer_made()  # type: ignore[method-assign]

    def _first_call(self) -> Any:
        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            torch.nn.Module.__call__ = self._call_module  # type: ignore[method-assign]
            self._session.begin()
            return self._call_module(module, *args, **kwargs)

        return call

    def _optimizer_made(self) -> Any:
        """In place of what PyTorch does to the class of an optimizer when the first one is made."""

        def made(optimizer: torch.optim.Optimizer) -> None:
            self._make_optimizer(optimizer)
            kind = type(optimizer)
            if not getattr(kind.step, "of_guest", False):
                kind.step = self._around(kind.step)  # type: ignore[method-assign]

        return made

    def _around(self, step: Any) -> Any:
        @functools.wraps(step)
        def call(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                found = step(optimizer, *args, **kwargs)
            finally:
                self._depth -= 1
            if not self._depth:  # else it is a class's own step, called by that of a derived one
                self._stepped(optimizer)
            return found

        call.of_guest = True  # type: ignore[attr-defined]
        return call

    def _stepped(self, optimizer: torch.optim.Optimizer) -> None:
        if self._clock is None:
            self._clock = id(optimizer)
        if id(optimizer) == self._clock and self._session.inside:
            self._session.end()
            self._session.begin()

    def end(self) -> dict[str, Any]:
        """The report. What ran since the last call of Optimizer.step is no step."""
        failure = self._session.failure
        if self._session.inside:
            self._session.abandon()
        return self._budget.report() | {"failed": str(failure or ""), "fits": not isinstance(failure, DoesNotFit)}


def begin(_watch: Any, told: str) -> Guest:
    """torch is there. told: the arguments of Budget, as JSON."""
    return Guest(Budget(**json.loads(told)))
