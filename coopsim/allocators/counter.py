"""Counts bytes, knows no addresses: a request fits when enough bytes are free. What DTR's own simulator assumes."""

from coopsim.allocators.pieces import link_after, take_bytes, unlink
from coopsim.kernel.jit import inlined
from coopsim.kernel.state import ADDRESS, K_FREE, K_TAIL, LENGTH, VALUE, State


@inlined
def carve(S: State, need: int, v: int) -> int:
    """`need` bytes for value v at the end of the list, or -1."""
    if S.K[K_FREE] < need:
        return -1
    piece = link_after(S, S.K[K_TAIL])
    S.P[piece, ADDRESS] = -1
    S.P[piece, LENGTH] = need
    S.P[piece, VALUE] = v
    take_bytes(S, need)
    return piece


@inlined
def uncarve(S: State, piece: int) -> None:
    """Free a piece."""
    S.K[K_FREE] += S.P[piece, LENGTH]
    unlink(S, piece)
