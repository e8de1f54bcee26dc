"""What a step costs under a policy that plans, once it has a plan."""

from dataclasses import replace

from coopsim.options import ReplayOptions
from coopsim.policies import LEARNS
from coopsim.replay import measure
from coopsim.trace.table import Trace
from coopsim.types import Outcome

_USUAL = ReplayOptions()


def planned_step(trace: Trace, policy: str, budget: int, options: ReplayOptions = _USUAL) -> tuple[str, float | None]:
    """How three iterations of the trace in one memory end, and the overhead of the third alone; None if one fails.

    options: their steps are not looked at. The third's cost is that of three less that of two, which are
    the same.
    """
    two, three = (
        measure(trace, policy, budget, options=replace(options, steps=k * trace.n_steps)) for k in (LEARNS, LEARNS + 1)
    )
    if three["outcome"] != Outcome.OK:
        return str(three["outcome"]), None
    return str(three["outcome"]), (three["total_cost_ns"] - two["total_cost_ns"]) / (int(trace.cost_ns.sum()) or 1)
