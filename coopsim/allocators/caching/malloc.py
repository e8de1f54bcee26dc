"""A request: the best free block, else memory from the device, else the chain of retries, else out of memory."""

from coopsim.allocators.caching.blocks import (
    is_split,
    link_before,
    lower_bound,
    new_block,
    remove_at,
)
from coopsim.allocators.caching.device import cuda_malloc
from coopsim.allocators.caching.events import process_events, record_events
from coopsim.allocators.caching.expandable import expand
from coopsim.allocators.caching.free import free_block, wait_free
from coopsim.allocators.caching.release import collect_garbage, release_available, release_cached
from coopsim.allocators.caching.rounding import BLOCK_UNIT, pool_of, round_size, segment_size
from coopsim.allocators.caching.state import (
    ADDRESS,
    ALLOCATED,
    K_ACTIVE,
    K_ALLOCATED,
    K_CALLS,
    K_COUNT,
    K_DEVICE_ALLOCS,
    K_EARLY_LIMIT,
    K_EXPANDABLE,
    K_GARBAGE,
    K_INACTIVE_SPLIT,
    K_LIMIT,
    K_MAX_ROUNDING,
    K_MAX_SPLIT,
    K_OOMS,
    K_REQUESTED,
    K_RESERVED,
    K_RETRIES,
    K_SEGMENTS,
    MAPPED,
    NEXT,
    NONE,
    POOL,
    REQUESTED,
    SIZE,
    SMALL,
    SPACE,
    STREAM,
    USES,
    Caching,
)
from coopsim.allocators.caching.statistics import count
from coopsim.kernel.jit import inlined, kernel

REJECTED = -2  # throw_on_cudamalloc_oom: counted apart from other failures
LARGE_REMAINDER = 1 << 20  # what may stay unused at the end of a large block


@inlined
def _room(A: Caching, b: int) -> int:
    """How large b could grow without a hole: its size and that of address space right behind it."""
    following = A.B[b, NEXT]
    return A.B[b, SIZE] + (A.B[following, SIZE] if following >= 0 and A.B[following, MAPPED] == 0 else 0)


@kernel
def _take_free(A: Caching, pool: int, size: int, stream: int) -> int:
    """The smallest free block of the stream that is large enough, out of its set; -1 if there is none to be had.

    In expandable segments a larger one is preferred while that could grow less. The first choice alone is tried: when
    max_split_size forbids it, no other is looked for.
    """
    if A.K[K_GARBAGE] >= 0:
        A.K[K_CALLS + pool] += 1
    at, n = lower_bound(A, pool, stream, size, -1, -1), A.K[K_COUNT + pool]
    if at == n or A.B[A.sets[pool, at], STREAM] != stream:
        return NONE
    b = A.sets[pool, at]
    if A.B[b, SPACE] >= 0:
        while at + 1 < n:
            other = A.sets[pool, at + 1]
            if A.B[other, STREAM] != stream or _room(A, other) >= _room(A, b):
                break
            at += 1
            b = other
    limit = A.K[K_MAX_SPLIT]
    if size < limit <= A.B[b, SIZE] or (size >= limit and A.B[b, SIZE] >= size + A.K[K_MAX_ROUNDING]):
        return NONE
    remove_at(A, pool, at)
    return b


@kernel
def _from_device(A: Caching, pool: int, size: int, stream: int) -> int:
    """A block in a new segment, or in an expandable one that grows; -1: there is no memory, -2: not even tried."""
    nbytes = segment_size(A, size)
    if A.K[K_LIMIT] >= 0 and A.K[K_RESERVED] + nbytes > A.K[K_LIMIT]:
        return NONE
    if A.K[K_EARLY_LIMIT] >= 0 and A.K[K_RESERVED] + nbytes > A.K[K_EARLY_LIMIT]:
        return REJECTED
    if A.K[K_EXPANDABLE]:
        return expand(A, pool, size, stream)
    address = cuda_malloc(A, nbytes)
    if address < 0:
        return NONE
    b = new_block(A, stream, address, nbytes, pool, NONE)
    count(A, K_SEGMENTS, 1)
    count(A, K_RESERVED, nbytes)
    A.K[K_DEVICE_ALLOCS] += 1
    return b


@kernel
def _find(A: Caching, size: int, stream: int) -> int:
    """A block of at least that size, in no set, by all means; -1: out of memory, -2: not even tried."""
    pool = pool_of(size)
    b = _take_free(A, pool, size, stream)
    if b >= 0:
        return b
    if A.K[K_GARBAGE] >= 0:
        collect_garbage(A)
    b = _from_device(A, pool, size, stream)
    if b == NONE and release_available(A, pool, size, stream):
        b = _from_device(A, pool, size, stream)
    if b == NONE:
        release_cached(A)
        A.K[K_RETRIES] += 1
        b = _from_device(A, pool, size, stream)
    return b


@kernel
def malloc(A: Caching, nbytes: int, stream: int) -> int:
    """The block for a request of nbytes > 0 on a stream; -1: out of memory."""
    process_events(A, False)
    size = round_size(A, nbytes)
    b = _find(A, size, stream)
    if b < 0:
        A.K[K_OOMS] += b == NONE
        return NONE
    remaining = A.B[b, SIZE] - size
    was_split = is_split(A, b)
    counts = A.B[b, SPACE] < 0  # expandable memory never counts as inactive
    if A.B[b, POOL] == SMALL or A.K[K_EXPANDABLE]:
        cut = remaining >= BLOCK_UNIT
    else:
        cut = size < A.K[K_MAX_SPLIT] and remaining > LARGE_REMAINDER
    if cut:
        rest = b
        b = new_block(A, stream, A.B[rest, ADDRESS], size, A.B[rest, POOL], rest)
        link_before(A, b, rest)
        A.B[rest, ADDRESS] += size
        A.B[rest, SIZE] -= size
        wait_free(A, rest)
        if counts:
            count(A, K_INACTIVE_SPLIT, -size if was_split else remaining)
    elif was_split and counts:
        count(A, K_INACTIVE_SPLIT, -A.B[b, SIZE])
    A.B[b, ALLOCATED] = 1
    A.B[b, REQUESTED] = nbytes
    count(A, K_ALLOCATED, A.B[b, SIZE])
    count(A, K_ACTIVE, A.B[b, SIZE])
    count(A, K_REQUESTED, nbytes)
    return b


@kernel
def free(A: Caching, b: int) -> None:
    """The program frees b: at once, or when the events of the streams that were recorded on it complete."""
    A.B[b, ALLOCATED] = 0
    count(A, K_ALLOCATED, -A.B[b, SIZE])
    if A.B[b, USES] >= 0:
        record_events(A, b)
    else:
        free_block(A, b)
