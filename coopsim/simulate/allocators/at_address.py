"""A place in an arena that the caller has chosen."""

from coopsim.simulate.allocators.arena import add_hole, first_hole, remove_hole
from coopsim.simulate.allocators.blocks import link_after, take_bytes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import kernel


@kernel
def carve_at(S: s.State, need: int, address: int, v: int) -> int:
    """`need` bytes for value v at `address`, or -1 if they are not free."""
    for at in range(first_hole(S, need, -1), S.K[s.K_HOLES]):
        block = carve_in(S, S.H[s.HOLE_BLOCK, at], need, address, v)
        if block >= 0:
            return block
    return -1


@kernel
def carve_in(S: s.State, hole: int, need: int, address: int, v: int) -> int:
    """The same in this block (-1: none); -1 if that is not free, or they do not lie in it."""
    if hole < 0 or S.P[hole, s.VALUE] >= 0:
        return -1
    before = address - S.P[hole, s.ADDRESS]
    after = S.P[hole, s.LENGTH] - before - need
    if before < 0 or after < 0:
        return -1
    remove_hole(S, first_hole(S, S.P[hole, s.LENGTH], S.P[hole, s.ADDRESS]))
    if before > 0:
        rest = link_after(S, S.P[hole, s.PREV])
        S.P[rest, s.ADDRESS] = S.P[hole, s.ADDRESS]
        S.P[rest, s.LENGTH] = before
        add_hole(S, rest)
    if after > 0:
        rest = link_after(S, hole)
        S.P[rest, s.ADDRESS] = address + need
        S.P[rest, s.LENGTH] = after
        add_hole(S, rest)
    S.P[hole, s.ADDRESS] = address
    S.P[hole, s.LENGTH] = need
    S.P[hole, s.VALUE] = v
    take_bytes(S, need)
    return hole


@kernel
def carve_highest(S: s.State, need: int, v: int) -> int:
    """`need` bytes for value v at the end of the highest hole that holds them, or -1."""
    highest = -1
    for at in range(S.K[s.K_HOLES]):
        if S.H[s.HOLE_BYTES, at] >= need:
            highest = max(highest, S.H[s.HOLE_ADDRESS, at] + S.H[s.HOLE_BYTES, at] - need)
    return -1 if highest < 0 else carve_at(S, need, highest, v)


@kernel
def carve_near(S: s.State, need: int, address: int, v: int) -> int:
    """`need` bytes for value v as near to `address` as holes allow, the lower on ties, or -1."""
    nearest, least = -1, 1 << 62
    for at in range(S.K[s.K_HOLES]):
        rest = S.H[s.HOLE_BYTES, at] - need
        if rest >= 0:
            start = S.H[s.HOLE_ADDRESS, at]
            place = min(max(address, start), start + rest)
            distance = abs(place - address)
            if distance < least or (distance == least and place < nearest):
                nearest, least = place, distance
    return -1 if nearest < 0 else carve_at(S, need, nearest, v)
