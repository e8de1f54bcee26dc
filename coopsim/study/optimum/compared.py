"""coopsim.gap: policies beside the optimum, as the command line and Python ask for them."""

from collections.abc import Sequence
from pathlib import Path

from coopsim.base import budget
from coopsim.base.errors import of_type, several
from coopsim.base.progress import progress
from coopsim.base.types import CoopsimError, OffloadState
from coopsim.simulate import policies
from coopsim.simulate.kernel.jit import note_if_cold
from coopsim.study.optimum import Gap, highs, options_for, problem_for
from coopsim.study.optimum import gap as one_gap
from coopsim.trace import Trace, load_trace
from coopsim.trace.measure import peak_bytes

_EITHER = ("coop:lose=either", "foresight:lose=either")


def gap(
    trace: Trace | str | Path,
    budgets: int | str | Sequence[int | str],
    policies: str | Sequence[str] | None = None,
    *,
    seconds: float = 60,
    link: str = "",
    host_memory: int | str | None = None,
    host_bandwidth: float | None = None,
) -> list[Gap]:
    """The least overhead of any schedule in each budget, and how far policies are from it: a Gap per budget.

    trace: a trace, or a name that `load` knows; exact for up to about a hundred ops. budgets: as of `sweep`, or bytes.
    policies: names (default: all; those that offload with a link). seconds: time for each budget's optimum. The rest is
    as of `replay`. A Gap has `optimum` (with `status` and `overhead`) and `rows`, and `as_dict()` is what `coopsim gap
    --json` prints. CoopsimError for invalid arguments, or without the solver (`pip install coopsim[optimum]`).
    """
    highs.solver()
    trace = trace if isinstance(trace, Trace) else load_trace(trace)
    of_type("seconds", float(seconds) if isinstance(seconds, int) else seconds, float, "the time for each budget")
    peak = peak_bytes(trace)
    sizes = budget.sizes(budgets, peak)
    names, offloads = _policies(policies, asked=bool(link or host_memory or host_bandwidth))
    memory = budget.parse(host_memory, None, "host_memory") if isinstance(host_memory, str) else host_memory
    options = options_for(trace, link=link, host_memory=memory, host_bandwidth=host_bandwidth)
    problem = problem_for(trace, options, offloads=offloads)
    note_if_cold()
    with progress("replays and optima", len(sizes) * (len(names) + 1)) as tick:
        return [
            one_gap(trace, nbytes, peak, names, seconds=seconds, options=options, problem=problem, tick=tick)
            for nbytes in sizes
        ]


def _policies(asked_for: str | Sequence[str] | None, *, asked: bool) -> tuple[list[str], bool]:
    """The policies to compare, and whether the optimum is of schedules that may offload."""
    if asked_for is not None:
        names = policies.split(asked_for) if isinstance(asked_for, str) else several(asked_for)
    elif asked:
        names = [*policies.names(), *_EITHER]
    else:
        names = [name for name in policies.names() if not policies.find(name).offloads]
    for name in names:
        if policies.find(name).offload_state == OffloadState.YES:
            raise CoopsimError(f"policy {name}: the optimum offloads no parameters and the like (offload_state=no)")
    offloads = any(policies.find(name).offloads for name in names)
    if asked and not offloads:
        raise CoopsimError("link, host_memory and host_bandwidth are of policies that offload: none is compared")
    return names, offloads
