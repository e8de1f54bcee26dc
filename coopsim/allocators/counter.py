"""Counts bytes, knows no addresses: a request fits when enough bytes are free. What DTR's own simulator assumes."""

from coopsim.allocators.pieces import link_after, take_bytes, unlink
from coopsim.kernel import state as s
from coopsim.kernel.jit import inlined


@inlined
def carve(S: s.State, need: int, v: int) -> int:
    """`need` bytes for value v at the end of the list, or -1."""
    if S.K[s.K_FREE] < need:
        return -1
    piece = link_after(S, S.K[s.K_TAIL])
    S.P[piece, s.ADDRESS] = -1
    S.P[piece, s.LENGTH] = need
    S.P[piece, s.VALUE] = v
    take_bytes(S, need)
    return piece


@inlined
def uncarve(S: s.State, piece: int) -> None:
    """Free a piece."""
    S.K[s.K_FREE] += S.P[piece, s.LENGTH]
    unlink(S, piece)
