"""The list of pieces in address order, which every allocator keeps."""

from coopsim.kernel.jit import inlined
from coopsim.kernel.state import (
    K_BUDGET,
    K_FREE,
    K_HEAD,
    K_MAX_PIECES,
    K_PEAK,
    K_PIECES,
    K_TAIL,
    K_TOP,
    NEXT,
    PREV,
    SLOT,
    State,
)


@inlined
def link_after(S: State, prev: int) -> int:
    """A new piece right after `prev` (-1: at the head). Returns its number."""
    piece = S.P[S.K[K_TOP], SLOT]
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
    S.P[S.K[K_TOP], SLOT] = piece
    S.K[K_PIECES] -= 1


@inlined
def take_bytes(S: State, need: int) -> None:
    """Count `need` bytes as used."""
    S.K[K_FREE] -= need
    S.K[K_PEAK] = max(S.K[K_PEAK], S.K[K_BUDGET] - S.K[K_FREE])
