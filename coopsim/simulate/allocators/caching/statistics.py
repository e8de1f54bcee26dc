"""Statistics: current and peak of each."""

from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.kernel.jit import inlined


@inlined
def count_of_pool(A: c.Caching, pool: int, change: int) -> None:
    """The device served a request of that pool, or got memory of it back: private pools count that."""
    if pool >= c.PRIVATE:
        A.G[(pool - c.PRIVATE) // c.PER_POOL, c.G_MALLOCS] += change


@inlined
def count(A: c.Caching, statistic: int, change: int) -> None:
    """A statistic changes; its peak follows."""
    A.K[statistic] += change
    A.K[statistic + 1] = max(A.K[statistic + 1], A.K[statistic])
