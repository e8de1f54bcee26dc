"""A place in an arena that the caller has chosen."""

from coopsim.allocators.arena import add_hole, remove_hole
from coopsim.allocators.pieces import link_after, take_bytes
from coopsim.kernel.jit import kernel
from coopsim.kernel.state import (
    ADDRESS,
    HOLE_ADDRESS,
    HOLE_BYTES,
    HOLE_PIECE,
    K_HOLES,
    LENGTH,
    PREV,
    VALUE,
    State,
)


@kernel
def carve_at(S: State, need: int, address: int, v: int) -> int:
    """`need` bytes for value v at `address`, or -1 if they are not free."""
    at = 0
    while at < S.K[K_HOLES]:
        start = S.H[HOLE_ADDRESS, at]
        if start <= address and address + need <= start + S.H[HOLE_BYTES, at]:
            break
        at += 1
    if at == S.K[K_HOLES]:
        return -1
    hole = S.H[HOLE_PIECE, at]
    remove_hole(S, at)
    before = address - S.P[hole, ADDRESS]
    after = S.P[hole, LENGTH] - before - need
    if before > 0:
        rest = link_after(S, S.P[hole, PREV])
        S.P[rest, ADDRESS] = S.P[hole, ADDRESS]
        S.P[rest, LENGTH] = before
        add_hole(S, rest)
    if after > 0:
        rest = link_after(S, hole)
        S.P[rest, ADDRESS] = address + need
        S.P[rest, LENGTH] = after
        add_hole(S, rest)
    S.P[hole, ADDRESS] = address
    S.P[hole, LENGTH] = need
    S.P[hole, VALUE] = v
    take_bytes(S, need)
    return hole


@kernel
def carve_highest(S: State, need: int, v: int) -> int:
    """`need` bytes for value v at the end of the highest hole that holds them, or -1."""
    highest = -1
    for at in range(S.K[K_HOLES]):
        if S.H[HOLE_BYTES, at] >= need:
            highest = max(highest, S.H[HOLE_ADDRESS, at] + S.H[HOLE_BYTES, at] - need)
    return -1 if highest < 0 else carve_at(S, need, highest, v)


@kernel
def carve_near(S: State, need: int, address: int, v: int) -> int:
    """`need` bytes for value v as near to `address` as holes allow, the lower on ties, or -1."""
    nearest, least = -1, 1 << 62
    for at in range(S.K[K_HOLES]):
        rest = S.H[HOLE_BYTES, at] - need
        if rest >= 0:
            start = S.H[HOLE_ADDRESS, at]
            place = min(max(address, start), start + rest)
            distance = abs(place - address)
            if distance < least or (distance == least and place < nearest):
                nearest, least = place, distance
    return -1 if nearest < 0 else carve_at(S, need, nearest, v)
