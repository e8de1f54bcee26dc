"""From which size of memory on a policy gets through: a search of dozens of replays, where a map takes hundreds."""

from collections.abc import Callable

from coopsim.optimum.planned import plans
from coopsim.replay import measure
from coopsim.trace.measure import peak_bytes, round_up
from coopsim.trace.table import Trace
from coopsim.types import Outcome

_STRIDES = 50  #: in the peak without eviction: tried one by one, so that a wide hole is not stepped over
_CLOSER = 8  #: parts of a stride, between which the search ends
_MOST = 2 * _STRIDES  #: a policy that copies may need more than the peak


def from_size(
    trace: Trace, policy: str, allocator: str = "arena", *, steps: int = 2, tick: Callable[[], None] = lambda: None
) -> int | None:
    """The smallest size, in bytes, with which the replay ends well, and with all larger ones that were tried.

    Tried are steps of 2 % of the peak without eviction, from it downwards to the first that fails (upwards, where it
    fails itself), and a bisection to 0.25 % between the last two. Under a policy that plans, which takes seconds, the
    first round alone, which goes without a plan, is searched; the size found is then tried with all steps, and larger
    ones until one fits. None: not with twice the peak. `tick` is called after each replay. A size between two that
    were tried may fail (docs/maps.md).
    """
    peak = peak_bytes(trace, 512)

    def size(n: int) -> int:
        return int(round_up(n * peak // (_STRIDES * _CLOSER), 512))

    def fits(n: int, steps: int) -> bool:
        ends = measure(trace, policy, allocator, size(n), steps=steps)["outcome"]
        tick()
        return bool(ends == Outcome.OK)

    first = trace.n_steps if plans(policy) else steps
    low = _STRIDES
    if fits(low * _CLOSER, first):
        while low > 1 and fits((low - 1) * _CLOSER, first):
            low -= 1
    else:
        while not fits((low := low + 1) * _CLOSER, first):
            if low == _MOST:
                return None
    good, bad = low * _CLOSER, (low - 1) * _CLOSER
    while good - bad > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle, first) else (good, middle)
    while first < steps and not fits(good, steps):
        good += 1
        if good > _MOST * _CLOSER:
            return None
    return size(good)
