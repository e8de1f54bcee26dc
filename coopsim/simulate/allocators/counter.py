"""Counts bytes, knows no addresses: a request fits when enough bytes are free. What DTR's own simulator assumes."""

from coopsim.simulate.allocators.blocks import link_after, take_bytes, unlink
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined


@inlined
def carve(S: s.State, need: int, v: int) -> int:
    """`need` bytes for value v at the end of the list, or -1."""
    if S.K[s.K_FREE] < need:
        return -1
    block = link_after(S, S.K[s.K_TAIL])
    S.P[block, s.ADDRESS] = -1
    S.P[block, s.LENGTH] = need
    S.P[block, s.VALUE] = v
    take_bytes(S, need)
    return block


@inlined
def uncarve(S: s.State, block: int) -> None:
    """Free a block."""
    S.K[s.K_FREE] += S.P[block, s.LENGTH]
    unlink(S, block)
