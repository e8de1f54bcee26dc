"""Private pools: what a CUDA graph's capture or a MemPool takes its memory from, and only that.

A pool is begun, which routes requests to it, and ended. Every beginning makes a user of it; when all have released it,
what is free in it can go back to the device.
"""

from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.kernel.jit import kernel


@kernel
def begin_pool(A: c.Caching, number: int, stream: int, captures: bool) -> None:
    """From here on requests of that stream (NONE: of all) come from the pool. `captures`: a graph is captured."""
    A.K[c.K_BEGINNINGS] += 1
    holds = 1 if captures or A.K[c.K_POOLS_HOLD] == 1 else 0
    A.G[number, c.G_USERS] += 1
    A.G[number, c.G_BEGUN] = A.K[c.K_BEGINNINGS]
    A.G[number, c.G_ON] = stream
    A.G[number, c.G_HOLDS] = holds
    A.K[c.K_BEGUN] += 1
    A.K[c.K_HOLDING] += holds


@kernel
def end_pool(A: c.Caching, number: int) -> None:
    """Requests no longer come from the pool."""
    A.G[number, c.G_BEGUN] = 0
    A.K[c.K_BEGUN] -= 1
    A.K[c.K_HOLDING] -= A.G[number, c.G_HOLDS]


@kernel
def leave_pool(A: c.Caching, number: int) -> None:
    """One user releases the pool."""
    A.G[number, c.G_USERS] -= 1
    if A.G[number, c.G_USERS] == 0:
        A.G[number, c.G_FREEABLE] = 1


@kernel
def serving_pool(A: c.Caching, stream: int) -> int:
    """What to add to LARGE or SMALL for a request of that stream: the first set of its pool."""
    found, order = 0, 0
    for number in range(1, A.G.shape[0]):
        begun = A.G[number, c.G_BEGUN]
        if begun == 0 or (A.G[number, c.G_ON] != c.NONE and A.G[number, c.G_ON] != stream):
            continue
        if found == 0 or (begun > order) == (A.K[c.K_LATEST_FIRST] == 1):
            found, order = c.PRIVATE + c.PER_POOL * number, begun
    return found
