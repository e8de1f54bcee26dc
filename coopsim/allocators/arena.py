"""One region, best fit: the smallest hole that is large enough, the lowest on ties; freed neighbours merge at once.

Follows OneFlow's rematerialisation allocator (docs/replay.md): holes are ordered by (size, address) in a sorted array.
"""

from coopsim.allocators.pieces import link_after, take_bytes, unlink
from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    ADDRESS,
    H_ROWS,
    HOLE_ADDRESS,
    HOLE_BYTES,
    HOLE_PIECE,
    K_BUDGET,
    K_FREE,
    K_HOLES,
    LENGTH,
    NEXT,
    PREV,
    VALUE,
    State,
)

_LARGEST = 1 << 62


@inlined
def reset(S: State) -> None:
    """One hole as large as the budget."""
    piece = link_after(S, -1)
    S.P[piece, ADDRESS] = 0
    S.P[piece, LENGTH] = S.K[K_BUDGET]
    if S.K[K_BUDGET] > 0:
        add_hole(S, piece)


@kernel
def carve(S: State, need: int, high: bool, v: int) -> int:
    """`need` bytes for value v at the low or high end of the best-fitting hole, or -1 if none is large enough."""
    at = _first_hole(S, need, -1)
    if at == S.K[K_HOLES]:
        return -1
    hole = S.H[HOLE_PIECE, at]
    rest = S.P[hole, LENGTH] - need
    piece = hole
    if rest > 0:
        piece = link_after(S, hole if high else S.P[hole, PREV])
        S.P[piece, ADDRESS] = S.P[hole, ADDRESS] + (rest if high else 0)
        S.P[piece, LENGTH] = need
        S.P[hole, ADDRESS] += 0 if high else need
        S.P[hole, LENGTH] = rest
        _change_hole(S, at, hole)
    else:
        remove_hole(S, at)
    S.P[piece, VALUE] = v
    take_bytes(S, need)
    return piece


@kernel
def uncarve(S: State, piece: int) -> None:
    """Free a piece and merge it with free neighbours."""
    S.P[piece, VALUE] = -1
    S.K[K_FREE] += S.P[piece, LENGTH]
    following, prev = S.P[piece, NEXT], S.P[piece, PREV]
    at = -1  # of the hole that grows
    if following >= 0 and S.P[following, VALUE] < 0:
        at = _first_hole(S, S.P[following, LENGTH], S.P[following, ADDRESS])
        S.P[piece, LENGTH] += S.P[following, LENGTH]
        unlink(S, following)
    if prev >= 0 and S.P[prev, VALUE] < 0:
        if at >= 0:
            remove_hole(S, at)
        at = _first_hole(S, S.P[prev, LENGTH], S.P[prev, ADDRESS])
        S.P[prev, LENGTH] += S.P[piece, LENGTH]
        unlink(S, piece)
        piece = prev
    if at >= 0:
        _change_hole(S, at, piece)
    else:
        add_hole(S, piece)


@inlined
def largest_hole(S: State) -> int:
    """Bytes of the largest hole."""
    n = S.K[K_HOLES]
    return S.H[HOLE_BYTES, n - 1] if n > 0 else 0


@inlined
def _first_hole(S: State, nbytes: int, address: int) -> int:
    """Position of the first hole that is not before (nbytes, address) in order.

    A binary search without branches, which would be guessed wrong every other time.
    """
    H, first, left = S.H, 0, S.K[K_HOLES]
    while left > 0:
        half = (left + 1) >> 1
        size = H[HOLE_BYTES, first + half - 1]
        before = (size < nbytes) | ((size == nbytes) & (H[HOLE_ADDRESS, first + half - 1] < address))
        first += half * before
        left -= half
    return first


@kernel
def add_hole(S: State, piece: int) -> None:
    """A new hole."""
    S.K[K_HOLES] += 1
    at = S.K[K_HOLES] - 1
    S.H[HOLE_BYTES, at] = _LARGEST  # after all others, until it has its place
    _change_hole(S, at, piece)


@kernel
def _change_hole(S: State, at: int, piece: int) -> None:
    """The hole at position `at` is now `piece`: it moves to where that belongs in the order."""
    H = S.H
    nbytes, address = S.P[piece, LENGTH], S.P[piece, ADDRESS]
    to = _first_hole(S, nbytes, address)
    if to > at:
        to -= 1
        for row in range(H_ROWS):
            for j in range(at, to):
                H[row, j] = H[row, j + 1]
    else:
        for row in range(H_ROWS):
            for j in range(at, to, -1):
                H[row, j] = H[row, j - 1]
    H[HOLE_BYTES, to] = nbytes
    H[HOLE_ADDRESS, to] = address
    H[HOLE_PIECE, to] = piece


@kernel
def remove_hole(S: State, at: int) -> None:
    """There is no hole at position `at` any more."""
    H = S.H
    S.K[K_HOLES] -= 1
    for row in range(H_ROWS):
        for j in range(at, S.K[K_HOLES]):
            H[row, j] = H[row, j + 1]
