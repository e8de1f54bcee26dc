"""OneFlow's area for small requests: the highest 10 MiB of the arena, which no search looks at (docs/replay.md)."""

from coopsim.simulate.allocators.arena import first_hole
from coopsim.simulate.allocators.at_address import carve_at
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel

SMALL_AREA = 10 << 20  #: bytes of the area
SMALL = 10 << 10  #: bytes of the largest request that goes there


@kernel
def carve_beside(S: s.State, need: int, high: bool, v: int) -> int:
    """`need` bytes for value v in the best-fitting hole that lies right for so many, or -1 if there is none."""
    for at in range(first_hole(S, need, -1), S.K[s.K_HOLES]):
        start, end = S.H[s.HOLE_ADDRESS, at], S.H[s.HOLE_ADDRESS, at] + S.H[s.HOLE_BYTES, at]
        address = _place_small(S, need, start, end) if need <= SMALL else _place(S, need, start, end, high)
        if address >= 0:
            return carve_at(S, need, address, v)
    return -1


@inlined
def _place_small(S: s.State, need: int, start: int, end: int) -> int:
    """Where in this hole a small request goes: the low end of what lies in the area, or -1.

    A hole may lie across the border, and half of what is placed there may lie on either side.
    """
    border = S.K[s.K_BORDER]
    address = -1
    if end > border:
        if start < border and border + need < end:
            address = border
        elif start + need // 2 > border:
            address = start
    return address


@inlined
def _place(S: s.State, need: int, start: int, end: int, high: bool) -> int:
    """Where in this hole another request goes, or -1."""
    border = S.K[s.K_BORDER]
    address = -1
    if start < border:
        if not high:
            address = start
        elif end > border and border - need > start:
            address = border - need
        elif end - need // 2 < border:
            address = end - need
    return address
