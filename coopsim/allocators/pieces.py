"""The list of pieces in address order, which every allocator keeps."""

from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    FAST,
    HOLE_PIECE,
    K_BUDGET,
    K_FREE,
    K_HEAD,
    K_HOLES,
    K_MAX_PIECES,
    K_PEAK,
    K_PIECES,
    K_TAIL,
    K_TOP,
    K_UNORDERED,
    NEXT,
    P_COLUMNS,
    PIECE,
    PREV,
    VALUE,
    State,
)


@inlined
def link_after(S: State, prev: int) -> int:
    """A new piece, a free one, right after `prev` (-1: at the head). Returns its number."""
    piece = S.slots[S.K[K_TOP]]
    S.P[piece, VALUE] = -1
    S.P[piece, FAST] = 0
    S.K[K_TOP] -= 1
    following = S.K[K_HEAD] if prev < 0 else S.P[prev, NEXT]
    S.P[piece, PREV] = prev
    S.P[piece, NEXT] = following
    if prev < 0:
        S.K[K_HEAD] = piece
    else:
        S.P[prev, NEXT] = piece
    if following < 0:
        S.K[K_TAIL] = piece
    else:
        S.P[following, PREV] = piece
    S.K[K_PIECES] += 1
    S.K[K_UNORDERED] += 1
    S.K[K_MAX_PIECES] = max(S.K[K_MAX_PIECES], S.K[K_PIECES])
    return piece


@inlined
def unlink(S: State, piece: int) -> None:
    """Take a piece out of the list; its number may be used again."""
    prev, following = S.P[piece, PREV], S.P[piece, NEXT]
    if prev < 0:
        S.K[K_HEAD] = following
    else:
        S.P[prev, NEXT] = following
    if following < 0:
        S.K[K_TAIL] = prev
    else:
        S.P[following, PREV] = prev
    S.K[K_TOP] += 1
    S.slots[S.K[K_TOP]] = piece
    S.K[K_PIECES] -= 1


@kernel
def put_in_order(S: State) -> None:
    """Number the pieces in the order of the list, if many have come since that was done.

    A search follows the list; where neighbours in it are neighbours in P, the processor has the next row ready.
    """
    if S.K[K_UNORDERED] < S.K[K_PIECES]:
        return
    S.K[K_UNORDERED] = 0
    P, spare, number = S.P, S.spare, S.scratch
    n, piece = 0, S.K[K_HEAD]
    while piece >= 0:
        number[piece] = n
        for column in range(P_COLUMNS):
            spare[n, column] = P[piece, column]
        if P[piece, VALUE] >= 0:
            S.V[P[piece, VALUE], PIECE] = n
        n += 1
        piece = P[piece, NEXT]
    for k in range(n):
        for column in range(P_COLUMNS):
            P[k, column] = spare[k, column]
        P[k, PREV] = k - 1
        P[k, NEXT] = k + 1 if k + 1 < n else -1
    for j in range(S.K[K_HOLES]):
        S.H[HOLE_PIECE, j] = number[S.H[HOLE_PIECE, j]]
    S.K[K_HEAD], S.K[K_TAIL] = (0, n - 1) if n > 0 else (-1, -1)
    for k in range(n, S.K[K_MAX_PIECES]):  # no other row has been used yet
        S.slots[S.slots.shape[0] - 1 - k] = k


@inlined
def take_bytes(S: State, need: int) -> None:
    """Count `need` bytes as used."""
    S.K[K_FREE] -= need
    S.K[K_PEAK] = max(S.K[K_PEAK], S.K[K_BUDGET] - S.K[K_FREE])
