"""What recomputation would do in a given memory: the outcome and the cost of a step under some policies."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from coopsim.base.types import GRANULE, Outcome
from coopsim.simulate import policies
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.planning.lower import lower
from coopsim.simulate.replay import measure
from coopsim.study.sweep.from_size import MemorySize, from_size
from coopsim.trace.table import Trace

POLICIES = ("foresight", "thrift", "coop", "dte-oneflow", "dtr-oneflow")
STEPS = 10  #: as `coopsim replay` has it

Tick = Callable[[], None]


@dataclass(frozen=True)
class Recomputed:
    """A policy in an arena of a given size.

    outcome: of `steps` steps in one memory. overhead: what a step costs, of a policy that plans one that goes by its
    plan; None if not all ran. searched: whether it was looked for from which size on it fits; fits_from: that size,
    None if it was not found, or not looked for.
    """

    policy: str
    steps: int
    outcome: str
    overhead: float | None
    searched: bool = False
    fits_from: MemorySize | None = None


def recompute(trace: Trace, nbytes: int, tick: Tick = lambda: None) -> list[Recomputed]:
    """Each of POLICIES in this memory, the cheapest first. `tick` is called after each.

    Replayed are as many steps as `coopsim replay` does, and at least all that were recorded; only those, if the trace
    cannot be repeated.
    """
    steps, rows = _steps(trace), []
    for policy in POLICIES:
        rows.append(_tried(trace, policy, nbytes, steps))
        tick()
    return sorted(rows, key=lambda r: (r.outcome != Outcome.OK, r.overhead or 0.0))


def search_sizes(trace: Trace, rows: Sequence[Recomputed], tick: Tick = lambda: None) -> list[Recomputed]:
    """The same with the size from which on each fits (from_size): some 150 replays for each, on all cores."""
    found = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # kernels, which are loaded by now, leave Python to others
        for size in pool.map(lambda row: from_size(trace, row.policy, steps=row.steps), rows):
            found.append(size)
            tick()
    return [replace(row, searched=True, fits_from=size) for row, size in zip(rows, found, strict=True)]


def _steps(trace: Trace) -> int:
    coop = policies.find("coop")
    program = lower(trace, in_place=coop.in_place, pinning=coop.pinning, granule=GRANULE)
    return max(STEPS, trace.n_steps) if program.used_up < 0 else trace.n_steps


def _tried(trace: Trace, policy: str, nbytes: int, steps: int) -> Recomputed:
    whole = measure(trace, policy, nbytes, options=ReplayOptions(steps))
    overhead = whole["overhead"]
    learns = policies.LEARNS * trace.n_steps
    if policies.find(policy).plans and overhead is not None and steps > learns:
        first = measure(trace, policy, nbytes, options=ReplayOptions(learns))
        cost, base = (whole[key] - first[key] for key in ("total_cost_ns", "base_cost_ns"))
        overhead = cost / base if base else overhead
    return Recomputed(policy, steps, whole["outcome"], overhead)
