"""The caching allocator as the memory of a replay: one stream, and a list of blocks like that of every allocator.

Blocks have the same numbers in both. The allocator keeps its own order of them, by segment; a search for victims
wants them in one list by address, which is written anew before each search. Between two segments the list has a
barrier, a block of no bytes: nothing that one request needs can lie on both sides of it.

Only a state that has a caching allocator compiles this. In others `S.caching` is None.
"""

from coopsim.simulate.allocators.blocks import take_bytes
from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.malloc import free, malloc
from coopsim.simulate.allocators.caching.perform import has_room
from coopsim.simulate.allocators.caching.rounding import pool_of, round_size
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.call import where_present
from coopsim.simulate.kernel.jit import kernel

STREAM_OF_ALL = 0


@kernel
def _carve(S: s.State, need: int, v: int) -> int:
    """`need` bytes for value v, or -1: out of memory."""
    A = S.caching
    if not has_room(A):
        S.K[s.K_CROWDED] = 1
        return c.NONE
    b = malloc(A, need, STREAM_OF_ALL)
    if b < 0:
        return c.NONE
    S.P[b, s.ADDRESS] = A.B[b, c.ADDRESS]
    S.P[b, s.LENGTH] = A.B[b, c.SIZE]
    S.P[b, s.VALUE] = v
    take_bytes(S, A.B[b, c.SIZE])
    return b


@kernel
def _uncarve(S: s.State, block: int) -> None:
    """Free a block."""
    S.P[block, s.VALUE] = c.NONE
    S.K[s.K_FREE] += S.P[block, s.LENGTH]
    free(S.caching, block)


@kernel
def _segments(A: c.Caching) -> int:
    """Put the first block of every mapped run into the scratch set, by address. Returns how many."""
    n = 0
    for b in range(A.K[c.K_HIGHEST]):
        if A.B[b, c.SIZE] == 0 or A.B[b, c.MAPPED] == 0:
            continue
        prev = A.B[b, c.PREV]
        if prev >= 0 and A.B[prev, c.MAPPED]:
            continue
        if A.K[c.K_EXPANDABLE]:  # few
            at = n
            while at > 0 and A.B[A.sets[c.SCRATCH, at - 1], c.ADDRESS] > A.B[b, c.ADDRESS]:
                A.sets[c.SCRATCH, at] = A.sets[c.SCRATCH, at - 1]
                at -= 1
        else:  # the device has them by address
            at, high = 0, A.K[c.K_MALLOCS]
            while at < high:
                middle = (at + high) >> 1
                if A.D[middle, c.D_ADDRESS] < A.B[b, c.ADDRESS]:
                    at = middle + 1
                else:
                    high = middle
        A.sets[c.SCRATCH, at] = b
        n += 1
    return n


@kernel
def _list_blocks(S: s.State, need: int) -> None:
    """Write the list of blocks; only of the pool that would serve `need` bytes, unless that is negative."""
    A = S.caching
    pool = pool_of(round_size(A, need)) if need >= 0 else c.NONE
    tail, count, barrier = c.NONE, 0, A.B.shape[0]
    S.K[s.K_HEAD] = c.NONE
    for k in range(_segments(A)):
        b = A.sets[c.SCRATCH, k]
        if pool >= 0 and A.B[b, c.POOL] != pool:
            continue
        if tail >= 0:
            S.P[barrier, s.VALUE] = s.BARRIER
            S.P[barrier, s.LOCKED] = 1
            S.P[barrier, s.LENGTH] = 0
            S.P[barrier, s.ADDRESS] = A.B[b, c.ADDRESS]
            S.P[tail, s.NEXT] = barrier
            S.P[barrier, s.PREV] = tail
            tail = barrier
            barrier += 1
        while b >= 0 and A.B[b, c.MAPPED]:
            S.P[b, s.ADDRESS] = A.B[b, c.ADDRESS]
            S.P[b, s.LENGTH] = A.B[b, c.SIZE]
            S.P[b, s.PREV] = tail
            if tail < 0:
                S.K[s.K_HEAD] = b
            else:
                S.P[tail, s.NEXT] = b
            tail = b
            count += 1
            b = A.B[b, c.NEXT]
    S.K[s.K_TAIL] = tail
    if tail >= 0:
        S.P[tail, s.NEXT] = c.NONE
    S.K[s.K_BLOCKS] = count
    S.K[s.K_MAX_BLOCKS] = max(S.K[s.K_MAX_BLOCKS], count)


@kernel
def _largest_hole(S: s.State) -> int:
    """The larger of the largest free block and what the device has left."""
    A = S.caching
    largest = A.K[c.K_TOTAL] - A.K[c.K_DEVICE_USED]
    for pool in range(c.UNMAPPED):
        n = A.K[c.K_COUNT + 2 * pool]
        if n > 0:
            largest = max(largest, A.B[A.sets[pool, n - 1], c.SIZE])
    return largest


@kernel
def _block_size(S: s.State, need: int) -> int:
    """Bytes of the block for `need` bytes."""
    return round_size(S.caching, need)


carve = where_present("caching", _carve, lambda S, need, v: c.NONE)  # noqa: ARG005
uncarve = where_present("caching", _uncarve, lambda S, block: None)  # noqa: ARG005
list_blocks = where_present("caching", _list_blocks, lambda S, need: None)  # noqa: ARG005
largest_hole = where_present("caching", _largest_hole, lambda S: 0)  # noqa: ARG005
block_size = where_present("caching", _block_size, lambda S, need: need)  # noqa: ARG005
