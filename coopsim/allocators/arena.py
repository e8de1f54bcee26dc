"""One region, best fit: the smallest hole that is large enough, the lowest on ties; freed neighbours merge at once.

Follows OneFlow's rematerialisation allocator (coop.md d): holes are ordered by (size, address) in a sorted array.
"""

from coopsim.allocators.pieces import link_after, take_bytes, unlink
from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    ADDRESS,
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


@inlined
def reset(S: State) -> None:
    """One hole as large as the budget."""
    piece = link_after(S, -1)
    S.P[piece, ADDRESS] = 0
    S.P[piece, LENGTH] = S.K[K_BUDGET]
    S.P[piece, VALUE] = -1
    if S.K[K_BUDGET] > 0:
        _add_hole(S, piece)


@kernel
def carve(S: State, need: int, high: bool, v: int) -> int:
    """`need` bytes for value v at the low or high end of the best-fitting hole, or -1 if none is large enough."""
    at = _first_hole(S, need, -1)
    if at == S.K[K_HOLES]:
        return -1
    hole = S.H[at, HOLE_PIECE]
    _remove_hole(S, at)
    rest = S.P[hole, LENGTH] - need
    piece = hole
    if rest > 0:
        if high:
            piece = link_after(S, hole)
            S.P[piece, ADDRESS] = S.P[hole, ADDRESS] + rest
        else:
            piece = link_after(S, S.P[hole, PREV])
            S.P[piece, ADDRESS] = S.P[hole, ADDRESS]
            S.P[hole, ADDRESS] += need
        S.P[piece, LENGTH] = need
        S.P[hole, LENGTH] = rest
        _add_hole(S, hole)
    S.P[piece, VALUE] = v
    take_bytes(S, need)
    return piece


@kernel
def uncarve(S: State, piece: int) -> None:
    """Free a piece and merge it with free neighbours."""
    S.P[piece, VALUE] = -1
    S.K[K_FREE] += S.P[piece, LENGTH]
    following, prev = S.P[piece, NEXT], S.P[piece, PREV]
    if following >= 0 and S.P[following, VALUE] < 0:
        _remove_hole(S, _first_hole(S, S.P[following, LENGTH], S.P[following, ADDRESS]))
        S.P[piece, LENGTH] += S.P[following, LENGTH]
        unlink(S, following)
    if prev >= 0 and S.P[prev, VALUE] < 0:
        _remove_hole(S, _first_hole(S, S.P[prev, LENGTH], S.P[prev, ADDRESS]))
        S.P[prev, LENGTH] += S.P[piece, LENGTH]
        unlink(S, piece)
        piece = prev
    _add_hole(S, piece)


@inlined
def largest_hole(S: State) -> int:
    """Bytes of the largest hole."""
    n = S.K[K_HOLES]
    return S.H[n - 1, HOLE_BYTES] if n > 0 else 0


@inlined
def _first_hole(S: State, nbytes: int, address: int) -> int:
    """Position of the first hole that is not before (nbytes, address) in order."""
    low, high = 0, S.K[K_HOLES]
    while low < high:
        middle = (low + high) >> 1
        size = S.H[middle, HOLE_BYTES]
        if size < nbytes or (size == nbytes and S.H[middle, HOLE_ADDRESS] < address):
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _add_hole(S: State, piece: int) -> None:
    nbytes, address = S.P[piece, LENGTH], S.P[piece, ADDRESS]
    at = _first_hole(S, nbytes, address)
    for j in range(S.K[K_HOLES], at, -1):
        S.H[j, HOLE_BYTES] = S.H[j - 1, HOLE_BYTES]
        S.H[j, HOLE_ADDRESS] = S.H[j - 1, HOLE_ADDRESS]
        S.H[j, HOLE_PIECE] = S.H[j - 1, HOLE_PIECE]
    S.H[at, HOLE_BYTES] = nbytes
    S.H[at, HOLE_ADDRESS] = address
    S.H[at, HOLE_PIECE] = piece
    S.K[K_HOLES] += 1


@inlined
def _remove_hole(S: State, at: int) -> None:
    S.K[K_HOLES] -= 1
    for j in range(at, S.K[K_HOLES]):
        S.H[j, HOLE_BYTES] = S.H[j + 1, HOLE_BYTES]
        S.H[j, HOLE_ADDRESS] = S.H[j + 1, HOLE_ADDRESS]
        S.H[j, HOLE_PIECE] = S.H[j + 1, HOLE_PIECE]
