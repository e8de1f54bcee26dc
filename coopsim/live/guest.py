"""Keeps the steps of a script to a budget, from inside the script's process (`coopsim live run`, `live plan`).

It is a plugin (run/launch/plugin.py): code that a task loads into the processes of a script.

A step is what lies between two calls of Optimizer.step. Hooks of modules and optimizers cannot tell where that is: a
step installs some of its own, which is not allowed while hooks run. If the script makes a Budget, a step is instead
what the script says it is, in the session of the command.
"""

import functools
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from coopsim.base.types import CoopsimError
from coopsim.live.arena.library import Arena, install
from coopsim.live.budget import offer
from coopsim.live.errors import DoesNotFit
from coopsim.live.host import Hosting
from coopsim.live.session import TrainingSession
from coopsim.record.observe import torch_private
from coopsim.record.observe.extension import NoExtensionError
from coopsim.run.launch.plugin import MakesPlugin
from coopsim.run.probes.steps import Counted

#: What PyTorch does to the class of an optimizer when the first one is made.
_OPTIMIZER_MADE = "torch.optim.Optimizer._patch_step_function"
_ENOUGH = 16  #: steps, if no step signature occurs twice


@dataclass(frozen=True)
class Request:
    """What the command asks for. Steps are only recorded if both memory and plan are None.

    memory, policy, plan: as Budget takes them. own: as TrainingSession does. save: a file to write all known step
    signatures to; the script is then ended after `steps` steps, or, if that is 0, once a signature has come again and
    all plans are validated. command: the title of the program. arena_bytes: size of the arena; 0: nearly all free
    memory; None: no arena. offload: whether plans may offload; None: if the file's do. hosting: fields of a
    live.host.Hosting, if they may. host_memory: bytes of the host that all copies may take; None: no limit.
    background: plans are made while steps go on.
    """

    memory: str | None = None
    policy: str = "foresight-offline"
    plan: str | None = None
    own: bool = False
    save: str = ""
    steps: int = 0
    command: str = ""
    arena_bytes: int | None = None
    offload: bool | None = None
    hosting: dict[str, Any] | None = None
    host_memory: int | None = None
    background: bool = False


class BudgetGuest:
    """Begins and ends the steps of a script that knows nothing of them (run.launch.plugin.Plugin).

    told: a Request, as JSON. The arena, if one is asked for, is installed at once: nothing may be allocated before.
    """

    def __init__(self, told: str) -> None:
        self._request = Request(**json.loads(told))
        self._arena: Arena | None = None
        self._no_arena = ""  #: why there is none, if there was to be one
        if self._request.arena_bytes is not None:
            try:
                install(self._request.arena_bytes)
                self._arena = Arena()
            except NoExtensionError as why:
                self._no_arena = str(why)

    def begin(self, _watch: object) -> None:
        """Prepare to follow the script, and return at once: the first step begins with the first call of a module.

        A Budget that the script makes joins this session, and says from then on what a step is.
        """
        request = self._request
        self._session = TrainingSession(
            request.memory,
            request.policy,
            plan=request.plan,
            arena=self._arena,
            offload=Hosting(**request.hosting) if request.hosting else None,
            no_offload="--no-offload" if request.offload is False else "",
            own=request.own,
            host_memory=request.host_memory,
            background=request.background,
            no_arena=self._no_arena,
            tries=bool(request.save),
            stepped=self._step_over,
        )
        self._counted = Counted()
        self._depth = 0
        self._gone = self._saved = False
        self._call_module = torch.nn.Module.__call__
        self._make_optimizer = torch_private.get(_OPTIMIZER_MADE)
        torch.nn.Module.__call__ = self._first_call()  # type: ignore[method-assign]
        torch_private.replace(_OPTIMIZER_MADE, self._optimizer_made())
        offer(self._give_way)

    def _give_way(self) -> TrainingSession:
        """Leave it to a Budget that the script makes to say what a step is."""
        self._leave()
        if self._session.inside:
            self._session.abandon()
        return self._session

    def _leave(self) -> None:
        self._gone = True
        torch.nn.Module.__call__ = self._call_module  # type: ignore[method-assign]

    def forget(self) -> None:
        """Take no steps in this process: it is a fork of the script's, such as a worker that loads data."""
        self._leave()
        self._session.forget()

    def _first_call(self) -> Any:
        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            torch.nn.Module.__call__ = self._call_module  # type: ignore[method-assign]
            self._session.begin()
            return self._call_module(module, *args, **kwargs)

        return call

    def _optimizer_made(self) -> Any:
        """A wrapper of what PyTorch does to the class of an optimizer when the first one is made."""

        def made(optimizer: torch.optim.Optimizer) -> None:
            self._make_optimizer(optimizer)
            signature = type(optimizer)
            if not getattr(signature.step, "of_guest", False):
                signature.step = self._around(signature.step)  # type: ignore[method-assign]

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
        if self._counted.counts(optimizer) and self._session.inside and not self._gone:
            self._session.end()
            self._session.begin()

    def _step_over(self) -> None:
        """End the script if it was run only to record or try its steps, and enough of them are known (SystemExit).

        Else keep its plans for another start once all are validated, as a script may be killed.
        """
        if not self._request.save:
            self._keep(over=False)
            return
        session, wanted = self._session, self._request.steps
        seen = session.known.recurred and session.learner.all_validated
        if session.totals.steps >= (wanted or _ENOUGH) or (not wanted and seen):
            self._save()
            sys.exit(0)

    def _save(self) -> None:
        self._session.learner.save(self._request.save, self._request.command)
        self._saved = True

    def _keep(self, *, over: bool) -> None:
        with suppress(CoopsimError):  # the folder may be full: the program goes on
            self._session.learner.keep(self._request.command, over=over)

    def end(self) -> dict[str, Any]:
        """The figures of the session (Budget.report), and whether and why it failed.

        What ran since the last call of Optimizer.step is not counted as a step.
        """
        failure = self._session.failure
        if self._session.inside:
            self._session.abandon()
        if self._request.save and not self._saved and failure is None and self._session.totals.steps:
            self._save()
        if failure is None:
            self._keep(over=True)
        found = self._session.report()
        if not self._counted.known and not self._gone:
            found["unplanned"] = "the script never calls Optimizer.step, which ends a step"
        elif not (found["planned_steps"] or found["deviated"] or found["unplanned"]):
            found["unplanned"] = "its plan was made when the last step was over"
        return found | {
            "failed": str(failure or ""),
            "fits": not isinstance(failure, DoesNotFit),
        }


PLUGIN: MakesPlugin = BudgetGuest
