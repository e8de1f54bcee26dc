"""A block becomes free: it merges with idle neighbours and waits in its pool's set."""

from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.blocks import insert, is_split, merge
from coopsim.simulate.allocators.caching.statistics import count
from coopsim.simulate.kernel.jit import inlined, kernel


@inlined
def wait_free(A: c.Caching, b: int) -> None:
    """b waits in its pool's free set; its age counts from now."""
    A.B[b, c.AGE] = A.K[c.K_CALLS + 2 * A.B[b, c.POOL]]
    insert(A, A.B[b, c.POOL], b)


@kernel
def free_block(A: c.Caching, b: int) -> None:
    """Nothing uses b any more, on any stream."""
    size = A.B[b, c.SIZE]
    inactive = -merge(A, b, A.B[b, c.PREV]) - merge(A, b, A.B[b, c.NEXT])
    wait_free(A, b)
    if A.B[b, c.SPACE] < 0:
        if is_split(A, b):
            inactive += A.B[b, c.SIZE]
        count(A, c.K_INACTIVE_SPLIT, inactive)
    count(A, c.K_ACTIVE, -size)
    count(A, c.K_REQUESTED, -A.B[b, c.REQUESTED])
