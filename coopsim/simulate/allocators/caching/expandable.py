"""Expandable segments: one large range of address space a stream and pool, mapped page by page as it is needed."""

from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.blocks import (
    drop_block,
    insert,
    is_idle,
    link_after,
    link_before,
    lower_bound,
    merge,
    new_block,
    remove,
    wait_free,
)
from coopsim.simulate.allocators.caching.device import reserve_space, round_up, take_pages
from coopsim.simulate.allocators.caching.rounding import SMALL_SEGMENT
from coopsim.simulate.allocators.caching.state import count, count_of_pool
from coopsim.simulate.kernel.jit import inlined, kernel


@inlined
def page_size(A: c.Caching, pool: int) -> int:
    """Bytes of a page of that pool."""
    return SMALL_SEGMENT if pool & c.SMALL else A.K[c.K_LARGE_SEGMENT]


@kernel
def _find(A: c.Caching, pool: int, size: int, stream: int) -> int:
    """The lowest block from which on `size` bytes are idle, mapped or not; -1 if there is none."""
    which = pool + c.UNMAPPED
    for at in range(lower_bound(A, which, stream, 0, 0, 0), A.K[c.K_COUNT + 2 * which]):
        first = A.sets[which, at]
        if A.B[first, c.STREAM] != stream:
            break
        if is_idle(A, A.B[first, c.PREV]):
            first = A.B[first, c.PREV]
        nbytes, b = 0, first
        while nbytes < size and is_idle(A, b):
            nbytes += A.B[b, c.SIZE]
            b = A.B[b, c.NEXT]
        if nbytes >= size:
            return first
    return c.NONE


@kernel
def _new_segment(A: c.Caching, pool: int, size: int, stream: int) -> int:
    """Address space without memory, as one block; -1: less than `size`, and nothing comes of it."""
    nbytes = round_up(A.K[c.K_RESERVE], page_size(A, pool))
    address = reserve_space(A, nbytes)
    if A.K[c.K_WASTES_SPACE] and nbytes < size:
        return c.NONE
    b = new_block(A, stream, address, nbytes, pool, c.NONE)
    A.B[b, c.SPACE] = address
    A.B[b, c.MAPPED] = 0
    insert(A, pool + c.UNMAPPED, b)
    return b


@kernel
def _map(A: c.Caching, b: int, size: int) -> bool:
    """Put memory behind the first `size` bytes of b and the rest of their last page; False: the device has no more."""
    pool = A.B[b, c.POOL]
    page = page_size(A, pool)
    start = A.B[b, c.ADDRESS] - A.B[b, c.SPACE]
    mapped = round_up(start + size, page) - start // page * page
    if not take_pages(A, mapped):
        return False
    remove(A, pool + c.UNMAPPED, b)
    A.B[b, c.MAPPED] = 1
    if mapped < A.B[b, c.SIZE]:
        rest = new_block(A, A.B[b, c.STREAM], A.B[b, c.ADDRESS] + mapped, A.B[b, c.SIZE] - mapped, pool, b)
        A.B[rest, c.MAPPED] = 0
        link_after(A, rest, b)
        insert(A, pool + c.UNMAPPED, rest)
        A.B[b, c.SIZE] = mapped
    merge(A, b, A.B[b, c.PREV])
    merge(A, b, A.B[b, c.NEXT])
    wait_free(A, b)
    count(A, c.K_RESERVED, mapped)
    A.K[c.K_DEVICE_ALLOCS] += 1
    return True


@kernel
def expand(A: c.Caching, pool: int, size: int, stream: int) -> int:
    """A mapped block of at least `size` bytes, in no set; -1 if the device has not enough for it.

    What was mapped before a failure stays as free memory.
    """
    b = _find(A, pool, size, stream)
    if b < 0:
        b = _new_segment(A, pool, size, stream)
        if b < 0:
            return c.NONE
    if A.B[b, c.MAPPED] == 0 and not _map(A, b, min(A.B[b, c.SIZE], size)):
        return c.NONE
    while A.B[b, c.SIZE] < size:
        following = A.B[b, c.NEXT]
        if not _map(A, following, min(size - A.B[b, c.SIZE], A.B[following, c.SIZE])):
            return c.NONE
        b = following
    remove(A, pool, b)
    return b


@inlined
def _rest(A: c.Caching, b: int, address: int, size: int) -> int:
    """A free block for what stays mapped of b; the caller links it."""
    return new_block(A, A.B[b, c.STREAM], address, size, A.B[b, c.POOL], b)


@kernel
def unmap(A: c.Caching, b: int) -> None:
    """Give back the pages that lie wholly in free block b. A segment without memory is given up."""
    pool = A.B[b, c.POOL]
    page = page_size(A, pool)
    start = A.B[b, c.ADDRESS] - A.B[b, c.SPACE]
    first, last = round_up(start, page), (start + A.B[b, c.SIZE]) // page * page
    if first >= last:
        return
    A.K[c.K_DEVICE_USED] -= last - first
    remove(A, pool, b)
    before, after = first - start, start + A.B[b, c.SIZE] - last
    if before > 0:
        rest = _rest(A, b, A.B[b, c.ADDRESS], before)
        link_before(A, rest, b)
        wait_free(A, rest)
    if after > 0:
        rest = _rest(A, b, A.B[b, c.SPACE] + last, after)
        link_after(A, rest, b)
        wait_free(A, rest)
    A.B[b, c.ADDRESS] = A.B[b, c.SPACE] + first
    A.B[b, c.SIZE] = last - first
    A.B[b, c.MAPPED] = 0
    merge(A, b, A.B[b, c.PREV])
    merge(A, b, A.B[b, c.NEXT])
    count_of_pool(A, pool, -1)
    count(A, c.K_RESERVED, first - last)
    A.K[c.K_DEVICE_FREES] += 1
    if A.B[b, c.PREV] < 0 and A.B[b, c.NEXT] < 0:
        drop_block(A, b)
    else:
        insert(A, pool + c.UNMAPPED, b)
