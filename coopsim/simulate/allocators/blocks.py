"""The list of blocks in address order, which every allocator keeps."""

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel


@inlined
def link_after(S: s.State, prev: int) -> int:
    """A new block, a free one, right after `prev` (-1: at the head). Returns its number."""
    block = S.slots[S.K[s.K_TOP]]
    S.P[block, s.VALUE] = -1
    S.P[block, s.LOCKED] = 0
    S.K[s.K_TOP] -= 1
    following = S.K[s.K_HEAD] if prev < 0 else S.P[prev, s.NEXT]
    S.P[block, s.PREV] = prev
    S.P[block, s.NEXT] = following
    if prev < 0:
        S.K[s.K_HEAD] = block
    else:
        S.P[prev, s.NEXT] = block
    if following < 0:
        S.K[s.K_TAIL] = block
    else:
        S.P[following, s.PREV] = block
    S.K[s.K_BLOCKS] += 1
    S.K[s.K_UNORDERED] += 1
    S.K[s.K_MAX_BLOCKS] = max(S.K[s.K_MAX_BLOCKS], S.K[s.K_BLOCKS])
    return block


@inlined
def unlink(S: s.State, block: int) -> None:
    """Take a block out of the list; its number may be used again."""
    prev, following = S.P[block, s.PREV], S.P[block, s.NEXT]
    if prev < 0:
        S.K[s.K_HEAD] = following
    else:
        S.P[prev, s.NEXT] = following
    if following < 0:
        S.K[s.K_TAIL] = prev
    else:
        S.P[following, s.PREV] = prev
    S.P[block, s.LENGTH] = 0  # what still knows its number finds no room in it
    S.K[s.K_TOP] += 1
    S.slots[S.K[s.K_TOP]] = block
    S.K[s.K_BLOCKS] -= 1


@kernel
def put_in_order(S: s.State) -> None:
    """Number the blocks in the order of the list, if many have come since that was done.

    A search follows the list; where neighbours in it are neighbours in P, the processor has the next row ready.
    """
    if S.K[s.K_UNORDERED] < S.K[s.K_BLOCKS]:
        return
    S.K[s.K_UNORDERED] = 0
    P, spare, number = S.P, S.spare, S.scratch
    n, block = 0, S.K[s.K_HEAD]
    while block >= 0:
        number[block] = n
        for column in range(s.P_COLUMNS):
            spare[n, column] = P[block, column]
        if P[block, s.VALUE] >= 0:
            S.V[P[block, s.VALUE], s.BLOCK] = n
        n += 1
        block = P[block, s.NEXT]
    for k in range(n):
        for column in range(s.P_COLUMNS):
            P[k, column] = spare[k, column]
        P[k, s.PREV] = k - 1
        P[k, s.NEXT] = k + 1 if k + 1 < n else -1
    for j in range(S.K[s.K_HOLES]):
        S.H[s.HOLE_BLOCK, j] = number[S.H[s.HOLE_BLOCK, j]]
    S.K[s.K_HEAD], S.K[s.K_TAIL] = (0, n - 1) if n > 0 else (-1, -1)
    for k in range(n, S.K[s.K_MAX_BLOCKS]):  # no other row has been used yet
        S.slots[S.slots.shape[0] - 1 - k] = k


@inlined
def take_bytes(S: s.State, need: int) -> None:
    """Count `need` bytes as used."""
    S.K[s.K_FREE] -= need
    S.K[s.K_PEAK] = max(S.K[s.K_PEAK], S.K[s.K_BUDGET] - S.K[s.K_FREE])
