"""One region, best fit: the smallest hole that is large enough, the lowest on ties; freed neighbours merge at once.

Follows OneFlow's rematerialisation allocator (docs/replay.md): holes are ordered by (size, address) in a sorted array.
While a plan is followed, which has all addresses, there is no such array; blocks are linked and merge as ever.
"""

from coopsim.simulate.allocators.blocks import link_after, take_bytes, unlink
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel

_LARGEST = 1 << 62


@inlined
def reset(S: s.State) -> None:
    """One hole as large as the budget."""
    block = link_after(S, -1)
    S.P[block, s.ADDRESS] = 0
    S.P[block, s.LENGTH] = S.K[s.K_BUDGET]
    if S.K[s.K_BUDGET] > 0:
        add_hole(S, block)


@kernel
def carve(S: s.State, need: int, high: bool, v: int) -> int:
    """`need` bytes for value v at the low or high end of the best-fitting hole, or -1 if none is large enough."""
    at = first_hole(S, need, -1)
    if at == S.K[s.K_HOLES]:
        return -1
    hole = S.H[s.HOLE_BLOCK, at]
    rest = S.P[hole, s.LENGTH] - need
    block = hole
    if rest > 0:
        block = link_after(S, hole if high else S.P[hole, s.PREV])
        S.P[block, s.ADDRESS] = S.P[hole, s.ADDRESS] + (rest if high else 0)
        S.P[block, s.LENGTH] = need
        S.P[hole, s.ADDRESS] += 0 if high else need
        S.P[hole, s.LENGTH] = rest
        _change_hole(S, at, hole)
    else:
        remove_hole(S, at)
    S.P[block, s.VALUE] = v
    take_bytes(S, need)
    return block


@kernel
def uncarve(S: s.State, block: int) -> None:
    """Free a block and merge it with free neighbours."""
    S.P[block, s.VALUE] = -1
    S.K[s.K_FREE] += S.P[block, s.LENGTH]
    following, prev = S.P[block, s.NEXT], S.P[block, s.PREV]
    at = -1  # of the hole that grows
    if following >= 0 and S.P[following, s.VALUE] < 0:
        at = first_hole(S, S.P[following, s.LENGTH], S.P[following, s.ADDRESS])
        S.P[block, s.LENGTH] += S.P[following, s.LENGTH]
        unlink(S, following)
    if prev >= 0 and S.P[prev, s.VALUE] < 0:
        if at >= 0:
            remove_hole(S, at)
        at = first_hole(S, S.P[prev, s.LENGTH], S.P[prev, s.ADDRESS])
        S.P[prev, s.LENGTH] += S.P[block, s.LENGTH]
        unlink(S, block)
        block = prev
    if at >= 0:
        _change_hole(S, at, block)
    else:
        add_hole(S, block)


@inlined
def largest_hole(S: s.State) -> int:
    """Bytes of the largest hole."""
    n = S.K[s.K_HOLES]
    return S.H[s.HOLE_BYTES, n - 1] if n > 0 else 0


@inlined
def first_hole(S: s.State, nbytes: int, address: int) -> int:
    """Position of the first hole that is not before (nbytes, address) in order.

    A binary search without branches, which would be guessed wrong every other time.
    """
    H, first, left = S.H, 0, S.K[s.K_HOLES]
    while left > 0:
        half = (left + 1) >> 1
        size = H[s.HOLE_BYTES, first + half - 1]
        before = (size < nbytes) | ((size == nbytes) & (H[s.HOLE_ADDRESS, first + half - 1] < address))
        first += half * before
        left -= half
    return first


@kernel
def list_holes(S: s.State) -> None:
    """List all holes there are, as no plan is followed any more."""
    block = S.K[s.K_HEAD]
    while block >= 0:
        if S.P[block, s.VALUE] < 0:
            add_hole(S, block)
        block = S.P[block, s.NEXT]


@kernel
def add_hole(S: s.State, block: int) -> None:
    """A new hole."""
    if S.K[s.K_REQUEST] >= 0:
        return
    S.K[s.K_HOLES] += 1
    at = S.K[s.K_HOLES] - 1
    S.H[s.HOLE_BYTES, at] = _LARGEST  # after all others, until it has its place
    _change_hole(S, at, block)


@kernel
def _change_hole(S: s.State, at: int, block: int) -> None:
    """The hole at position `at` is now `block`: it moves to where that belongs in the order."""
    if S.K[s.K_REQUEST] >= 0:
        return
    H = S.H
    nbytes, address = S.P[block, s.LENGTH], S.P[block, s.ADDRESS]
    to = first_hole(S, nbytes, address)
    if to > at:
        to -= 1
        for row in range(s.H_ROWS):
            for j in range(at, to):
                H[row, j] = H[row, j + 1]
    else:
        for row in range(s.H_ROWS):
            for j in range(at, to, -1):
                H[row, j] = H[row, j - 1]
    H[s.HOLE_BYTES, to] = nbytes
    H[s.HOLE_ADDRESS, to] = address
    H[s.HOLE_BLOCK, to] = block


@kernel
def remove_hole(S: s.State, at: int) -> None:
    """There is no hole at position `at` any more."""
    if S.K[s.K_REQUEST] >= 0:
        return
    H = S.H
    S.K[s.K_HOLES] -= 1
    for row in range(s.H_ROWS):
        for j in range(at, S.K[s.K_HOLES]):
            H[row, j] = H[row, j + 1]
