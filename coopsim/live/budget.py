"""What users hold: a budget, and the steps that are taken inside it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from coopsim.live.errors import LiveError
from coopsim.live.session import Session
from coopsim.policies import Policy

_hosts: list[Callable[[], Session]] = []


def host_next(give: Callable[[], Session]) -> None:
    """The next budget of this process takes the session that `give` returns, in place of one of its own.

    So `coopsim live` has its way in a script with a budget of its own: the script makes the budget, so nothing can be
    passed to it, and the process is where both meet.
    """
    _hosts.append(give)


class Budget:
    """Train inside a budget of memory, with the same numbers as without one.

    memory: for all that is on the device, such as "8GiB"; or a share of what a step takes without a budget, such as
    "50%". policy: any that `coopsim.replay` takes. plan: a file of `coopsim live plan`, by which the first step goes,
    too; then memory may be left out, and the policy is the plan's. device: "cuda" or "cpu"; by default the GPU if one
    is in use. Where `coopsim live` runs the script, what the command says counts, and not these.

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
    ) -> None:
        if memory is None and plan is None:
            raise LiveError('a budget is an amount of memory, such as "8GiB", or a plan')
        path = os.fspath(plan) if plan is not None else None
        self.session = _hosts.pop()() if _hosts else Session(memory, policy, device, path)

    @contextmanager
    def step(self) -> Iterator[None]:
        """Inside lies one step of training: forward, backward, and the optimizer's."""
        self.session.begin()
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.session.end(error)

    def report(self) -> dict[str, Any]:
        """What happened until now, under the keys of `coopsim live run --json`.

        Peaks are of steps that had a budget. predicted_overhead: cost of a step with recomputation over that without,
        of the last plan. unplanned: why the last kind of step has no plan, deviated: why a step left its own,
        no_observer: why all ops go through Python, no_arena: why there is none although it was asked for.
        """
        return report(self.session)


def report(s: Session) -> dict[str, Any]:
    """Of a session, as `Budget.report` has it."""
    return {
        "budget_bytes": s.limit,
        "steps": s.steps,
        "planned_steps": s.planned_steps,
        "peak_allocated_bytes": s.peak_bytes,
        "peak_reserved_bytes": s.peak_reserved_bytes,
        "evictions": s.evictions,
        "recomputes": s.recomputes,
        "deviations": s.deviations,
        "replans": s.replans,
        "predicted_overhead": s.overhead(),
        "policy": s.policy if isinstance(s.policy, str) else s.policy.name,
        "unplanned": s.unplanned,
        "deviated": s.why,
        "no_observer": s.no_observer,
        "no_arena": s.no_arena,
    }
