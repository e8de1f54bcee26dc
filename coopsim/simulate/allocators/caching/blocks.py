"""Blocks: rows, neighbours, and the sorted sets in which free ones wait."""

from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.state import count
from coopsim.simulate.kernel.jit import inlined, kernel


@inlined
def new_block(A: c.Caching, stream: int, address: int, size: int, pool: int, like: int) -> int:
    """A mapped block without neighbours, of the segment of block `like` (-1: of a new one of cudaMalloc)."""
    A.K[c.K_TOP] -= 1
    b = A.B[A.K[c.K_TOP], c.SLOT]
    A.K[c.K_REGISTERED] += 1
    A.K[c.K_HIGHEST] = max(A.K[c.K_HIGHEST], b + 1)
    A.B[b, c.STREAM] = stream
    A.B[b, c.SIZE] = size
    A.B[b, c.ADDRESS] = address
    A.B[b, c.PREV] = c.NONE
    A.B[b, c.NEXT] = c.NONE
    A.B[b, c.POOL] = pool
    A.B[b, c.ALLOCATED] = 0
    A.B[b, c.MAPPED] = 1
    A.B[b, c.PENDING] = 0
    A.B[b, c.USES] = c.NONE
    A.B[b, c.REQUESTED] = 0
    A.B[b, c.SPACE] = c.NONE if like < 0 else A.B[like, c.SPACE]
    if A.K[c.K_TIES] == c.BY_BLOCK or (A.K[c.K_TIES] == c.BY_SEGMENT and like < 0):
        A.B[b, c.ORDER] = A.K[c.K_REGISTERED]
    elif A.K[c.K_TIES] == c.BY_SEGMENT:
        A.B[b, c.ORDER] = A.B[like, c.ORDER]
    else:
        A.B[b, c.ORDER] = 0
    return b


@inlined
def drop_block(A: c.Caching, b: int) -> None:
    """The row may be used again."""
    A.B[A.K[c.K_TOP], c.SLOT] = b
    A.B[b, c.SIZE] = 0
    A.K[c.K_TOP] += 1


@inlined
def link_before(A: c.Caching, b: int, following: int) -> None:
    """Put b into the segment right before `following`."""
    prev = A.B[following, c.PREV]
    A.B[b, c.PREV] = prev
    A.B[b, c.NEXT] = following
    A.B[following, c.PREV] = b
    if prev >= 0:
        A.B[prev, c.NEXT] = b


@inlined
def link_after(A: c.Caching, b: int, prev: int) -> None:
    """Put b into the segment right after `prev`."""
    following = A.B[prev, c.NEXT]
    A.B[b, c.NEXT] = following
    A.B[b, c.PREV] = prev
    A.B[prev, c.NEXT] = b
    if following >= 0:
        A.B[following, c.PREV] = b


@inlined
def is_split(A: c.Caching, b: int) -> bool:
    """Whether b is a part of its segment."""
    return A.B[b, c.PREV] >= 0 or A.B[b, c.NEXT] >= 0


@inlined
def is_idle(A: c.Caching, b: int) -> bool:
    """Whether b exists and nothing uses it, on any stream."""
    return b >= 0 and A.B[b, c.ALLOCATED] == 0 and A.B[b, c.PENDING] == 0 and A.B[b, c.USES] < 0


@inlined
def set_of(A: c.Caching, b: int) -> int:
    """Return the set of free blocks to which b belongs when it is free: its pool's, of mapped or of unmapped memory."""
    return A.B[b, c.POOL] if A.B[b, c.MAPPED] else A.B[b, c.POOL] + c.UNMAPPED


@inlined
def lower_bound(A: c.Caching, which: int, stream: int, size: int, order: int, address: int) -> int:
    """Position of the first block that is not before that key; address space without memory is sorted by address."""
    low, high = 0, A.K[c.K_COUNT + 2 * which]
    while low < high:
        middle = (low + high) >> 1
        b = A.sets[which, middle]
        if A.B[b, c.STREAM] != stream:
            before = A.B[b, c.STREAM] < stream
        elif which & c.UNMAPPED == 0 and A.B[b, c.SIZE] != size:
            before = A.B[b, c.SIZE] < size
        elif which & c.UNMAPPED == 0 and A.B[b, c.ORDER] != order:
            before = A.B[b, c.ORDER] < order
        else:
            before = A.B[b, c.ADDRESS] < address
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def position(A: c.Caching, which: int, b: int) -> int:
    """Where b is in that set, or would be."""
    return lower_bound(A, which, A.B[b, c.STREAM], A.B[b, c.SIZE], A.B[b, c.ORDER], A.B[b, c.ADDRESS])


@kernel
def insert(A: c.Caching, which: int, b: int) -> None:
    """b waits in that set."""
    at = position(A, which, b)
    for j in range(A.K[c.K_COUNT + 2 * which], at, -1):
        A.sets[which, j] = A.sets[which, j - 1]
    A.sets[which, at] = b
    A.K[c.K_COUNT + 2 * which] += 1


@inlined
def remove_at(A: c.Caching, which: int, at: int) -> None:
    """Take the block at that position out."""
    A.K[c.K_COUNT + 2 * which] -= 1
    for j in range(at, A.K[c.K_COUNT + 2 * which]):
        A.sets[which, j] = A.sets[which, j + 1]


@kernel
def remove(A: c.Caching, which: int, b: int) -> None:
    """Take b out of that set."""
    remove_at(A, which, position(A, which, b))


@kernel
def merge(A: c.Caching, b: int, neighbour: int) -> int:
    """b, which waits in no set, absorbs that neighbour if it is idle and as mapped as b; bytes gained."""
    if not is_idle(A, neighbour) or A.B[neighbour, c.MAPPED] != A.B[b, c.MAPPED]:
        return 0
    remove(A, set_of(A, neighbour), neighbour)
    if A.B[b, c.PREV] == neighbour:
        A.B[b, c.ADDRESS] = A.B[neighbour, c.ADDRESS]
        A.B[b, c.PREV] = A.B[neighbour, c.PREV]
        if A.B[b, c.PREV] >= 0:
            A.B[A.B[b, c.PREV], c.NEXT] = b
    else:
        A.B[b, c.NEXT] = A.B[neighbour, c.NEXT]
        if A.B[b, c.NEXT] >= 0:
            A.B[A.B[b, c.NEXT], c.PREV] = b
    size = A.B[neighbour, c.SIZE]
    A.B[b, c.SIZE] += size
    drop_block(A, neighbour)
    return size


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
