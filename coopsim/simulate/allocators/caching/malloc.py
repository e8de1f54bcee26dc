"""A request: the best free block, else memory from the device, else the chain of retries, else out of memory."""

from coopsim.base.types import GRANULE
from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.blocks import (
    free_block,
    is_split,
    link_before,
    lower_bound,
    new_block,
    remove_at,
    wait_free,
)
from coopsim.simulate.allocators.caching.device import cuda_malloc
from coopsim.simulate.allocators.caching.events import defer, process_events, record_events
from coopsim.simulate.allocators.caching.expandable import expand
from coopsim.simulate.allocators.caching.release import collect_garbage, release_available, release_cached
from coopsim.simulate.allocators.caching.rounding import pool_of, round_size, segment_size
from coopsim.simulate.allocators.caching.state import count, count_of_pool
from coopsim.simulate.kernel.jit import inlined, kernel

REJECTED = -2  # throw_on_cudamalloc_oom: counted apart from other failures
LARGE_REMAINDER = 1 << 20  # what may stay unused at the end of a large block


@kernel
def begin_pool(A: c.Caching, number: int, stream: int, captures: bool) -> None:
    """From here on requests of that stream (NONE: of all) come from a private pool. `captures`: a graph is captured.

    Every beginning makes a user of the pool; when all have released it, what is free in it can go back to the device.
    """
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


@inlined
def _room(A: c.Caching, b: int) -> int:
    """How large b could grow without a hole: its size and that of address space right behind it."""
    following = A.B[b, c.NEXT]
    return A.B[b, c.SIZE] + (A.B[following, c.SIZE] if following >= 0 and A.B[following, c.MAPPED] == 0 else 0)


@kernel
def _take_free(A: c.Caching, pool: int, size: int, stream: int) -> int:
    """The smallest free block of the stream that is large enough, out of its set; -1 if there is none to be had.

    In expandable segments a larger one is preferred while that could grow less. The first choice alone is tried: when
    max_split_size forbids it, no other is looked for.
    """
    if A.K[c.K_GARBAGE] >= 0:
        A.K[c.K_CALLS + 2 * pool] += 1
    at, n = lower_bound(A, pool, stream, size, -1, -1), A.K[c.K_COUNT + 2 * pool]
    if at == n or A.B[A.sets[pool, at], c.STREAM] != stream:
        return c.NONE
    b = A.sets[pool, at]
    if A.B[b, c.SPACE] >= 0:
        while at + 1 < n:
            other = A.sets[pool, at + 1]
            if A.B[other, c.STREAM] != stream or _room(A, other) >= _room(A, b):
                break
            at += 1
            b = other
    limit = A.K[c.K_MAX_SPLIT]
    if size < limit <= A.B[b, c.SIZE] or (size >= limit and A.B[b, c.SIZE] >= size + A.K[c.K_MAX_ROUNDING]):
        return c.NONE
    remove_at(A, pool, at)
    return b


@kernel
def _from_device(A: c.Caching, pool: int, size: int, stream: int) -> int:
    """A block in a new segment, or in an expandable one that grows; -1: there is no memory, -2: not even tried."""
    nbytes = segment_size(A, size)
    if A.K[c.K_LIMIT] >= 0 and A.K[c.K_RESERVED] + nbytes > A.K[c.K_LIMIT]:
        return c.NONE
    if A.K[c.K_EARLY_LIMIT] >= 0 and A.K[c.K_RESERVED] + nbytes > A.K[c.K_EARLY_LIMIT]:
        return REJECTED
    if A.K[c.K_EXPANDABLE]:
        b = expand(A, pool, size, stream)
        if b >= 0:
            count_of_pool(A, pool, 1)
        return b
    address = cuda_malloc(A, nbytes)
    if address < 0:
        return c.NONE
    b = new_block(A, stream, address, nbytes, pool, c.NONE)
    count_of_pool(A, pool, 1)
    count(A, c.K_SEGMENTS, 1)
    count(A, c.K_RESERVED, nbytes)
    A.K[c.K_DEVICE_ALLOCS] += 1
    return b


@kernel
def _find(A: c.Caching, size: int, stream: int) -> int:
    """A block of at least that size, in no set, by all means; -1: out of memory, -2: not even tried."""
    pool = pool_of(size)
    if A.K[c.K_BEGUN] > 0:
        pool += serving_pool(A, stream)
    b = _take_free(A, pool, size, stream)
    if b >= 0:
        return b
    if A.K[c.K_GARBAGE] >= 0:
        collect_garbage(A)
    b = _from_device(A, pool, size, stream)
    if b == c.NONE and release_available(A, pool, size, stream):
        b = _from_device(A, pool, size, stream)
    if b == c.NONE and A.K[c.K_HOLDING] == 0:
        release_cached(A)
        A.K[c.K_RETRIES] += 1
        b = _from_device(A, pool, size, stream)
    return b


@kernel
def malloc(A: c.Caching, nbytes: int, stream: int) -> int:
    """The block for a request of nbytes > 0 on a stream; -1: out of memory."""
    if A.K[c.K_HOLDING] == 0:
        process_events(A, False)
    size = round_size(A, nbytes)
    b = _find(A, size, stream)
    if b < 0:
        A.K[c.K_OOMS] += b == c.NONE
        return c.NONE
    remaining = A.B[b, c.SIZE] - size
    was_split = is_split(A, b)
    counts = A.B[b, c.SPACE] < 0  # expandable memory never counts as inactive
    if A.B[b, c.POOL] & c.SMALL or A.K[c.K_EXPANDABLE]:
        cut = remaining >= GRANULE
    else:
        cut = size < A.K[c.K_MAX_SPLIT] and remaining > LARGE_REMAINDER
    if cut:
        rest = b
        b = new_block(A, stream, A.B[rest, c.ADDRESS], size, A.B[rest, c.POOL], rest)
        link_before(A, b, rest)
        A.B[rest, c.ADDRESS] += size
        A.B[rest, c.SIZE] -= size
        wait_free(A, rest)
        if counts:
            count(A, c.K_INACTIVE_SPLIT, -size if was_split else remaining)
    elif was_split and counts:
        count(A, c.K_INACTIVE_SPLIT, -A.B[b, c.SIZE])
    A.B[b, c.ALLOCATED] = 1
    A.B[b, c.REQUESTED] = nbytes
    count(A, c.K_ALLOCATED, A.B[b, c.SIZE])
    count(A, c.K_ACTIVE, A.B[b, c.SIZE])
    count(A, c.K_REQUESTED, nbytes)
    return b


@kernel
def free(A: c.Caching, b: int) -> None:
    """The program frees b: at once, or when the events of the streams that were recorded on it complete.

    In a capture these events must wait for its end.
    """
    A.B[b, c.ALLOCATED] = 0
    count(A, c.K_ALLOCATED, -A.B[b, c.SIZE])
    if A.B[b, c.USES] >= 0:
        if A.K[c.K_HOLDING] > 0:
            defer(A, b)
        else:
            record_events(A, b)
    else:
        free_block(A, b)
