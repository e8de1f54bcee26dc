"""From which size of memory on a policy gets through: the edge that a map finds, by fewer replays."""

from collections.abc import Callable
from typing import NamedTuple

from coopsim.base import budget
from coopsim.base.types import Outcome
from coopsim.simulate import allocators, policies
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.replay import measure
from coopsim.study.sweep.feasibility_map import Scan
from coopsim.trace.measure import peak_bytes
from coopsim.trace.table import Trace

#: A map's steps, but from twice the peak on: a policy that copies may need more than the peak.
SCAN = Scan(top="200%", bottom="0.5%")
_PEAK = SCAN.units - 199 * SCAN.per_step  #: 100 %, in finer steps below the top


class MemorySize(NamedTuple):
    """An amount of memory, in bytes and as a budget: a percentage of the peak without eviction."""

    nbytes: int
    budget: str


def from_size(
    trace: Trace, policy: str, allocator: str = "arena", *, steps: int = 10, tick: Callable[[], None] = lambda: None
) -> MemorySize | None:
    """The smallest size with which the replay ends well, and with all larger ones that were tried, up to the peak.

    Tried is what `coopsim map` tries: every 0.5 % of the peak without eviction, from it downwards to the first that
    fails (upwards, where it fails itself), and a bisection to 0.05 % between the last two. Under a policy that plans,
    which takes seconds, the first iteration alone, which goes without a plan, is searched; the size found is then tried
    with all steps, and larger ones until one fits. None: not with twice the peak. `tick` is called after each replay.
    A size between two that were tried may fail (docs/simulate.md).
    """
    granule = allocators.find(allocator).granule
    peak = peak_bytes(trace, granule)

    def fits(n: int, steps: int) -> bool:
        ends = measure(trace, policy, size(n).nbytes, allocator, ReplayOptions(steps))["outcome"]
        tick()
        return bool(ends == Outcome.OK)

    def size(n: int) -> MemorySize:
        return MemorySize(budget.parse(SCAN.text(n), peak) // granule * granule, SCAN.text(n))

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
