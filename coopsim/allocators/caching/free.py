"""A block becomes free: it merges with idle neighbours and waits in its pool's set."""

from coopsim.allocators.caching.blocks import insert, is_split, merge
from coopsim.allocators.caching.state import (
    AGE,
    K_ACTIVE,
    K_CALLS,
    K_INACTIVE_SPLIT,
    K_REQUESTED,
    NEXT,
    POOL,
    PREV,
    REQUESTED,
    SIZE,
    SPACE,
    Caching,
)
from coopsim.allocators.caching.statistics import count
from coopsim.kernel.jit import inlined, kernel


@inlined
def wait_free(A: Caching, b: int) -> None:
    """b waits in its pool's free set; its age counts from now."""
    A.B[b, AGE] = A.K[K_CALLS + A.B[b, POOL]]
    insert(A, A.B[b, POOL], b)


@kernel
def free_block(A: Caching, b: int) -> None:
    """Nothing uses b any more, on any stream."""
    size = A.B[b, SIZE]
    inactive = -merge(A, b, A.B[b, PREV]) - merge(A, b, A.B[b, NEXT])
    wait_free(A, b)
    if A.B[b, SPACE] < 0:
        if is_split(A, b):
            inactive += A.B[b, SIZE]
        count(A, K_INACTIVE_SPLIT, inactive)
    count(A, K_ACTIVE, -size)
    count(A, K_REQUESTED, -A.B[b, REQUESTED])
