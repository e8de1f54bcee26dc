"""The public interface of `coopsim.live`: a budget, and the steps that are taken inside it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coopsim.base import budget as amounts
from coopsim.base.text import count, human
from coopsim.live.errors import LiveError
from coopsim.live.host import Hosting
from coopsim.live.session import TrainingSession
from coopsim.simulate.policies import Policy

_offered: list[Callable[[], TrainingSession]] = []  # at most one; the only state of this package that is global


def offer(make: Callable[[], TrainingSession]) -> None:
    """Let the next Budget of this process join the session that `make` returns, in place of one of its own.

    `coopsim live run` makes the session, and the script makes the Budget: no argument can carry it there.
    """
    _offered[:] = [make]


class Budget:
    """Train inside a budget of memory, with the same numbers as without one.

    memory: for everything on the device, an amount such as "8GiB", or a share such as "50%" of what the largest step
    takes without a budget. policy: any that `coopsim.replay` takes. plan: a file of `coopsim live plan`, which steps
    follow from the first one on; memory may then be left out, and the policy is the plan's. device: "cuda" or "cpu"; by
    default, the one that has most bytes of parameters when the first step begins. offload: plans may also copy values
    to the host and fetch them, over link, a name of `coopsim list links` (by default the card's). host_memory: an
    amount that copies may take there, those of steps without a plan included. Under `coopsim live run` the command's
    arguments replace all of these.

    Raises LiveError without memory and plan, for a plan that does not match, and without a C++ compiler for a PyTorch
    before 2.12 or without CUDA.

        budget = coopsim.live.Budget("8GiB")
        for batch in loader:
            with budget.step():
                loss = model(batch).loss; loss.backward(); optimizer.step(); optimizer.zero_grad()
    """

    def __init__(
        self,
        memory: str | None = None,
        policy: Policy | str = "foresight-offline",
        plan: str | os.PathLike[str] | None = None,
        *,
        device: str | None = None,
        offload: bool = False,
        host_memory: str | None = None,
        link: str = "",
    ) -> None:
        if memory is None and plan is None:
            raise LiveError('a budget is an amount of memory, such as "8GiB", or a plan')
        path = os.fspath(plan) if plan is not None else None
        if link and not offload:
            raise LiveError("link is for offload=True")
        most = amounts.parse(host_memory, None, "host_memory") if host_memory else None
        hosting = Hosting(link, most) if offload else None
        self._memory = memory
        self.session = (
            _offered.pop()()
            if _offered
            else TrainingSession(memory, policy, device, path, offload=hosting, host_memory=most)
        )

    def __repr__(self) -> str:
        at = self.session
        memory = self._memory if at.limit is None else human(at.limit)
        return f"<Budget of {memory}, {at.policy}, {count(at.totals.steps, 'step')} so far>"

    @contextmanager
    def step(self) -> Iterator[None]:
        """A context that encloses one step of training: forward pass, backward pass and the optimizer's step.

        Raises LiveError if the step cannot be followed, and DoesNotFit if an op finds no room in the budget.
        """
        session, error = self.session, None
        if session.inside:
            session.begin()  # which raises
        try:
            session.begin()
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            try:
                if session.inside:
                    session.end(error)
            finally:
                if session.inside:  # it was interrupted before it began
                    session.end(error)

    def report(self) -> dict[str, Any]:
        """The figures of all steps so far, under the keys of `coopsim live run --json` (docs/reference/json.md).

        Peaks are in bytes, of steps that had a budget. predicted_overhead: the time of a step by the last plan ÷ that
        of a step as it is (1.1: 10 % more), each the longer of the GPU's and the host's, which predicted_ns has.
        step_ns: what steps by the last plan took on a card, the median; None without any. prices: what the costs of ops
        rest on. unplanned: why the last step signature has no plan; deviated: why a step left its plan; no_observer:
        why every op goes through Python; no_arena: why there is none although one was asked for; no_offload: why the
        last plan does not offload although it may. These are "" where they do not apply. host_bytes: of the host's area
        for copies. device_calls: how often the latest step with a plan took memory from the GPU or gave it back.
        """
        return self.session.report()
