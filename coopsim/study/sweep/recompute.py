"""What recomputation would do in a given memory: the outcome and the cost of a step under some policies."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

from coopsim.base import budget
from coopsim.base.types import GRANULE, Outcome
from coopsim.simulate import policies
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.planning.lower import lower
from coopsim.simulate.replay import measure
from coopsim.study.sweep.feasibility_map import Scan
from coopsim.trace.measure import peak_bytes
from coopsim.trace.table import Trace

#: A map's steps, but from twice the peak on: a policy that copies may need more than the peak.
SCAN = Scan(top="200%", bottom="0.5%")
_PEAK = SCAN.units - 199 * SCAN.per_step  #: 100 %, in finer steps below the top
POLICIES = ("foresight", "thrift", "coop", "dte-oneflow", "dtr-oneflow")
STEPS = 10  #: as `coopsim replay` has it

Tick = Callable[[], None]


class MemorySize(NamedTuple):
    """An amount of memory, in bytes and as a budget: a percentage of the peak without eviction."""

    nbytes: int
    budget: str


def from_size(trace: Trace, policy: str, *, steps: int = 10, tick: Tick = lambda: None) -> MemorySize | None:
    """The smallest size with which the replay ends well, and with all larger ones that were tried, up to the peak.

    Tried is what `coopsim map` tries: every 0.5 % of the peak without eviction, from it downwards to the first that
    fails (upwards, where it fails itself), and a bisection to 0.05 % between the last two. Under a policy that plans,
    which takes seconds, the first iteration alone, which goes without a plan, is searched; the size found is then tried
    with all steps, and larger ones until one fits. None: not with twice the peak. `tick` is called after each replay.
    A size between two that were tried may fail (docs/simulate.md).
    """
    peak = peak_bytes(trace, GRANULE)

    def fits(n: int, steps: int) -> bool:
        ends = measure(trace, policy, size(n).nbytes, options=ReplayOptions(steps))["outcome"]
        tick()
        return bool(ends == Outcome.OK)

    def size(n: int) -> MemorySize:
        return MemorySize(budget.parse(SCAN.text(n), peak) // GRANULE * GRANULE, SCAN.text(n))

    first = min(steps, trace.n_steps) if policies.find(policy).plans else steps
    n, stride = _PEAK, SCAN.per_step
    if fits(n, first):
        while n < SCAN.units and fits(n + stride, first):
            n += stride
    else:
        while not fits(n := n - stride, first):
            if n == 0:
                return None
    good, bad = n, n + stride
    while bad - good > 1 and bad <= SCAN.units:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle, first) else (good, middle)
    while first < steps and not fits(good, steps):
        good -= 1
        if good < 0:
            return None
    return size(good)


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
