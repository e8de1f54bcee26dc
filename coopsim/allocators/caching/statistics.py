"""Statistics: current and peak of each."""

from coopsim.allocators.caching import state as c
from coopsim.kernel.jit import inlined


@inlined
def count(A: c.Caching, statistic: int, change: int) -> None:
    """A statistic changes; its peak follows."""
    A.K[statistic] += change
    A.K[statistic + 1] = max(A.K[statistic + 1], A.K[statistic])
