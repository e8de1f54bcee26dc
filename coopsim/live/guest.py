"""In the processes of a script: a step is what lies between two calls of Optimizer.step. Called by coopsim.script.

Hooks of modules and optimizers will not do: a step installs some itself, which must not be while hooks run. Budgets of
the script's own go before: then a step is what they say, in the session that the command has made.
"""

import functools
import json
import sys
from dataclasses import dataclass
from typing import Any

import torch

from coopsim.live import budget
from coopsim.live.arena.install import install
from coopsim.live.arena.library import Arena
from coopsim.live.errors import DoesNotFit
from coopsim.live.session import Session
from coopsim.observe import torch_private
from coopsim.observe.extension import NoExtensionError
from coopsim.script.guest import MakesGuest

#: What PyTorch does to the class of an optimizer when the first one is made.
_OPTIMIZER_MADE = "torch.optim.Optimizer._patch_step_function"
_ENOUGH = 16  #: steps, if no kind of step occurs twice


@dataclass(frozen=True)
class Request:
    """What the command wants. memory and plan None: steps are to be recorded.

    save: write all kinds of step that are known there, and end the script after `steps` of them; 0: once nothing new is
    to be expected. command: the title of what is run. arena_bytes: 0: all that is free; None: there is no arena.
    """

    memory: str | None = None
    policy: str = "foresight-offline"
    plan: str | None = None
    save: str = ""
    steps: int = 0
    command: str = ""
    arena_bytes: int | None = None


class Guest:
    """Steps of a script that does not know of them. The first begins when the first module is called.

    told: a Request, as JSON.
    """

    def __init__(self, told: str) -> None:
        self._told = Request(**json.loads(told))
        self._arena: Arena | None = None
        self._no_arena = ""  #: why there is none, if there was to be one
        if self._told.arena_bytes is not None:
            try:
                install(self._told.arena_bytes)
                self._arena = Arena()
            except NoExtensionError as why:
                self._no_arena = str(why)

    def begin(self, _watch: object) -> None:
        """Wait for the first call of a module, with which the first step begins."""
        told = self._told
        self._session = Session(told.memory, told.policy, plan=told.plan, arena=self._arena)
        self._session.no_arena = self._no_arena
        self._session.stepped = self._step_over
        self._clock: int | None = None  # the first optimizer that steps
        self._depth = 0
        self._gone = self._saved = False
        self._call_module = torch.nn.Module.__call__
        self._make_optimizer = torch_private.get(_OPTIMIZER_MADE)
        torch.nn.Module.__call__ = self._first_call()  # type: ignore[method-assign]
        torch_private.replace(_OPTIMIZER_MADE, self._optimizer_made())
        budget.host_next(self._give_way)

    def _give_way(self) -> Session:
        """The script has a budget of its own, which says what a step is."""
        self._leave()
        if self._session.inside:
            self._session.abandon()
        return self._session

    def _leave(self) -> None:
        self._gone = True
        torch.nn.Module.__call__ = self._call_module  # type: ignore[method-assign]

    def forget(self) -> None:
        """This process is a fork, such as a worker that loads data: its modules and optimizers take no steps."""
        self._leave()
        self._session.forget()

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
        if id(optimizer) == self._clock and self._session.inside and not self._gone:
            self._session.end()
            self._session.begin()

    def _step_over(self) -> None:
        """End the script if it was only to show its steps, and has."""
        if not self._told.save:
            return
        seen = self._session.recurred and self._session.all_proven
        if self._session.steps >= (self._told.steps or _ENOUGH) or (not self._told.steps and seen):
            self._save()
            sys.exit(0)

    def _save(self) -> None:
        self._session.save(self._told.save, self._told.command)
        self._saved = True

    def end(self) -> dict[str, Any]:
        """The report. What ran since the last call of Optimizer.step is no step."""
        failure = self._session.failure
        if self._session.inside:
            self._session.abandon()
        if self._told.save and not self._saved and failure is None and self._session.steps:
            self._save()
        found = budget.report(self._session)
        if self._clock is None and not self._gone:
            found["unplanned"] = "the script never calls Optimizer.step, which ends a step"
        return found | {
            "failed": str(failure or ""),
            "fits": not isinstance(failure, DoesNotFit),
        }


GUEST: MakesGuest = Guest
