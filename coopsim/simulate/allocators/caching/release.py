"""Memory goes back to the device: when a request finds none, when the user empties the cache, when blocks grow old."""

from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.blocks import drop_block, is_split, lower_bound, remove_at
from coopsim.simulate.allocators.caching.device import cuda_free
from coopsim.simulate.allocators.caching.events import await_events, process_events
from coopsim.simulate.allocators.caching.expandable import unmap
from coopsim.simulate.allocators.caching.state import count, count_of_pool
from coopsim.simulate.kernel.jit import kernel


@kernel
def _release(A: c.Caching, pool: int, at: int) -> None:
    """cudaFree the unsplit block at that position of the pool's set."""
    b = A.sets[pool, at]
    remove_at(A, pool, at)
    cuda_free(A, A.B[b, c.ADDRESS])
    count_of_pool(A, pool, -1)
    count(A, c.K_SEGMENTS, -1)
    count(A, c.K_RESERVED, -A.B[b, c.SIZE])
    A.K[c.K_DEVICE_FREES] += 1
    drop_block(A, b)


@kernel
def _release_pool(A: c.Caching, pool: int) -> None:
    """Give back every free segment of a pool, and every page without a used byte."""
    at, expandable = 0, 0
    while at < A.K[c.K_COUNT + 2 * pool]:
        b = A.sets[pool, at]
        if A.B[b, c.SPACE] < 0 and not is_split(A, b):
            _release(A, pool, at)
            continue
        if A.B[b, c.SPACE] >= 0:
            A.sets[c.SCRATCH, expandable] = b
            expandable += 1
        at += 1
    for k in range(expandable):
        unmap(A, A.sets[c.SCRATCH, k])


@kernel
def release_cached(A: c.Caching) -> None:
    """Wait for all events, then give back all that is free: empty_cache, and what a request does before it fails.

    In a capture only what is free in private pools that all have released; before 2.9 that is an error.
    """
    if A.K[c.K_HOLDING] == 0:
        process_events(A, True)
        for pool in range(c.SMALL + 1):  # the large one first
            _release_pool(A, pool)
    elif not A.K[c.K_POOLS_EMPTY]:
        return
    for number in range(1, A.G.shape[0]):
        if A.G[number, c.G_FREEABLE]:
            _release_private(A, number)


@kernel
def _release_private(A: c.Caching, number: int) -> None:
    first = c.PRIVATE + c.PER_POOL * number
    _release_pool(A, first + c.SMALL)
    _release_pool(A, first + c.LARGE)
    if A.G[number, c.G_MALLOCS] == 0:
        A.G[number, c.G_FREEABLE] = 0


@kernel
def empty_pool(A: c.Caching, number: int) -> None:
    """What a MemPool does when it goes: wait for its events and give back what is free, if all have released it."""
    if A.G[number, c.G_FREEABLE] and A.K[c.K_HOLDING] == 0 and A.K[c.K_POOLS_EMPTY]:
        await_events(A, c.PRIVATE + c.PER_POOL * number)
        _release_private(A, number)


@kernel
def release_available(A: c.Caching, pool: int, size: int, stream: int) -> bool:
    """With max_split_size: give back free oversize blocks of the stream that make up for `size`; whether they do."""
    if A.K[c.K_MAX_SPLIT] == c.UNLIMITED:
        return False
    wanted = max(size, A.K[c.K_MAX_SPLIT])
    at = lower_bound(A, pool, stream, wanted, -1, -1)
    if at < A.K[c.K_COUNT + 2 * pool]:
        b = A.sets[pool, at]
        if A.B[b, c.STREAM] == stream and A.B[b, c.SPACE] < 0:
            _release(A, pool, at)
            return True
    released = 0
    at -= 1
    while at >= 0 and released < wanted:
        b = A.sets[pool, at]
        if A.B[b, c.SIZE] < A.K[c.K_MAX_SPLIT] or A.B[b, c.STREAM] != stream:
            break
        if A.B[b, c.SPACE] < 0:
            released += A.B[b, c.SIZE]
            _release(A, pool, at)
        at -= 1
    return released >= wanted


@kernel
def collect_garbage(A: c.Caching) -> None:
    """Give back large free segments, oldest first, until reserved memory is below the threshold.

    Age is counted in requests. A pass gives back all that are at least as old as the average at its start.
    """
    target = A.K[c.K_RESERVED] - A.K[c.K_GARBAGE]
    if target <= 0:
        return
    calls = A.K[c.K_CALLS + 2 * c.LARGE]
    age, blocks = 0, 0
    for at in range(A.K[c.K_COUNT + 2 * c.LARGE]):
        b = A.sets[c.LARGE, at]
        if not is_split(A, b):
            age += calls - A.B[b, c.AGE]
            blocks += 1
    reclaimed, freed = 0, True
    while reclaimed < target and freed and blocks > 0:
        oldest = age / blocks
        freed = False
        at = 0
        while at < A.K[c.K_COUNT + 2 * c.LARGE]:
            b = A.sets[c.LARGE, at]
            if not is_split(A, b) and A.B[b, c.SPACE] < 0 and calls - A.B[b, c.AGE] >= oldest:
                freed = True
                reclaimed += A.B[b, c.SIZE]
                age -= calls - A.B[b, c.AGE]
                blocks -= 1
                _release(A, c.LARGE, at)
            else:
                at += 1
