"""Blocks: rows, neighbours, and the sorted sets in which free ones wait."""

from coopsim.allocators.caching.state import (
    ADDRESS,
    ALLOCATED,
    BY_BLOCK,
    BY_SEGMENT,
    K_COUNT,
    K_HIGHEST,
    K_REGISTERED,
    K_TIES,
    K_TOP,
    MAPPED,
    NEXT,
    NONE,
    ORDER,
    PENDING,
    POOL,
    PREV,
    REQUESTED,
    SIZE,
    SLOT,
    SPACE,
    STREAM,
    UNMAPPED,
    USES,
    Caching,
)
from coopsim.kernel.jit import inlined, kernel


@inlined
def new_block(A: Caching, stream: int, address: int, size: int, pool: int, like: int) -> int:
    """A mapped block without neighbours, of the segment of block `like` (-1: of a new one of cudaMalloc)."""
    A.K[K_TOP] -= 1
    b = A.B[A.K[K_TOP], SLOT]
    A.K[K_REGISTERED] += 1
    A.K[K_HIGHEST] = max(A.K[K_HIGHEST], b + 1)
    A.B[b, STREAM] = stream
    A.B[b, SIZE] = size
    A.B[b, ADDRESS] = address
    A.B[b, PREV] = NONE
    A.B[b, NEXT] = NONE
    A.B[b, POOL] = pool
    A.B[b, ALLOCATED] = 0
    A.B[b, MAPPED] = 1
    A.B[b, PENDING] = 0
    A.B[b, USES] = NONE
    A.B[b, REQUESTED] = 0
    A.B[b, SPACE] = NONE if like < 0 else A.B[like, SPACE]
    if A.K[K_TIES] == BY_BLOCK or (A.K[K_TIES] == BY_SEGMENT and like < 0):
        A.B[b, ORDER] = A.K[K_REGISTERED]
    elif A.K[K_TIES] == BY_SEGMENT:
        A.B[b, ORDER] = A.B[like, ORDER]
    else:
        A.B[b, ORDER] = 0
    return b


@inlined
def drop_block(A: Caching, b: int) -> None:
    """The row may be used again."""
    A.B[A.K[K_TOP], SLOT] = b
    A.B[b, SIZE] = 0
    A.K[K_TOP] += 1


@inlined
def link_before(A: Caching, b: int, following: int) -> None:
    """Put b into the segment right before `following`."""
    prev = A.B[following, PREV]
    A.B[b, PREV] = prev
    A.B[b, NEXT] = following
    A.B[following, PREV] = b
    if prev >= 0:
        A.B[prev, NEXT] = b


@inlined
def link_after(A: Caching, b: int, prev: int) -> None:
    """Put b into the segment right after `prev`."""
    following = A.B[prev, NEXT]
    A.B[b, NEXT] = following
    A.B[b, PREV] = prev
    A.B[prev, NEXT] = b
    if following >= 0:
        A.B[following, PREV] = b


@inlined
def is_split(A: Caching, b: int) -> bool:
    """Whether b is a part of its segment."""
    return A.B[b, PREV] >= 0 or A.B[b, NEXT] >= 0


@inlined
def is_idle(A: Caching, b: int) -> bool:
    """Whether b exists and nothing uses it, on any stream."""
    return b >= 0 and A.B[b, ALLOCATED] == 0 and A.B[b, PENDING] == 0 and A.B[b, USES] < 0


@inlined
def set_of(A: Caching, b: int) -> int:
    """The set in which b waits when it is free."""
    return A.B[b, POOL] if A.B[b, MAPPED] else A.B[b, POOL] + UNMAPPED


@inlined
def lower_bound(A: Caching, which: int, stream: int, size: int, order: int, address: int) -> int:
    """Position of the first block that is not before that key; address space without memory is sorted by address."""
    low, high = 0, A.K[K_COUNT + which]
    while low < high:
        middle = (low + high) >> 1
        b = A.sets[which, middle]
        if A.B[b, STREAM] != stream:
            before = A.B[b, STREAM] < stream
        elif which < UNMAPPED and A.B[b, SIZE] != size:
            before = A.B[b, SIZE] < size
        elif which < UNMAPPED and A.B[b, ORDER] != order:
            before = A.B[b, ORDER] < order
        else:
            before = A.B[b, ADDRESS] < address
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def position(A: Caching, which: int, b: int) -> int:
    """Where b is in that set, or would be."""
    return lower_bound(A, which, A.B[b, STREAM], A.B[b, SIZE], A.B[b, ORDER], A.B[b, ADDRESS])


@kernel
def insert(A: Caching, which: int, b: int) -> None:
    """b waits in that set."""
    at = position(A, which, b)
    for j in range(A.K[K_COUNT + which], at, -1):
        A.sets[which, j] = A.sets[which, j - 1]
    A.sets[which, at] = b
    A.K[K_COUNT + which] += 1


@inlined
def remove_at(A: Caching, which: int, at: int) -> None:
    """Take the block at that position out."""
    A.K[K_COUNT + which] -= 1
    for j in range(at, A.K[K_COUNT + which]):
        A.sets[which, j] = A.sets[which, j + 1]


@kernel
def remove(A: Caching, which: int, b: int) -> None:
    """Take b out of that set."""
    remove_at(A, which, position(A, which, b))


@kernel
def merge(A: Caching, b: int, neighbour: int) -> int:
    """b, which waits in no set, absorbs that neighbour if it is idle and as mapped as b; bytes gained."""
    if not is_idle(A, neighbour) or A.B[neighbour, MAPPED] != A.B[b, MAPPED]:
        return 0
    remove(A, set_of(A, neighbour), neighbour)
    if A.B[b, PREV] == neighbour:
        A.B[b, ADDRESS] = A.B[neighbour, ADDRESS]
        A.B[b, PREV] = A.B[neighbour, PREV]
        if A.B[b, PREV] >= 0:
            A.B[A.B[b, PREV], NEXT] = b
    else:
        A.B[b, NEXT] = A.B[neighbour, NEXT]
        if A.B[b, NEXT] >= 0:
            A.B[A.B[b, NEXT], PREV] = b
    size = A.B[neighbour, SIZE]
    A.B[b, SIZE] += size
    drop_block(A, neighbour)
    return size
