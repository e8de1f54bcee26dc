"""What users hold: a budget, and the steps that are taken inside it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from coopsim.live.session import Session
from coopsim.policies import Policy


class Budget:
    """Train inside a budget of memory, with the same numbers as without one.

    memory: for all that is on the device, such as "8GiB"; or a share of what a step takes without a budget, such as
    "50%". policy: any that `coopsim.replay` takes. device: "cuda" or "cpu"; by default the GPU if one is in use.

        budget = coopsim.live.Budget("8GiB")
        for batch in loader:
            with budget.step():
                loss = model(batch).loss; loss.backward(); optimizer.step(); optimizer.zero_grad()
    """

    def __init__(self, memory: str, policy: Policy | str = "foresight-offline", *, device: str | None = None) -> None:
        self.session = Session(memory, policy, device)
        self._policy = policy if isinstance(policy, str) else policy.name

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
        of the last plan. unplanned: why the last kind of step has no plan, deviated: why a step left its own.
        """
        s = self.session
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
            "policy": self._policy,
            "unplanned": s.unplanned,
            "deviated": s.why,
        }
