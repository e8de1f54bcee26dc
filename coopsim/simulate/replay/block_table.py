"""All blocks as columns, which a search of a user's reads."""

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import kernel
from coopsim.simulate.replay.host import offloads
from coopsim.simulate.replay.score import score, terms_of
from coopsim.simulate.replay.search import can_go


@kernel
def fill_table(S: s.State, where: bool) -> int:
    """Write all blocks into the table, in address order. Returns how many there are; each counts as visited.

    where: also addresses and last uses, which take as long as all else.
    """
    n, block, border, may_offload = 0, S.K[s.K_HEAD], S.K[s.K_BORDER], offloads(S)
    while block >= 0:
        v = S.P[block, s.VALUE]
        if v != s.BARRIER:
            S.table[s.T_BYTES, n] = S.P[block, s.LENGTH]
            S.table[s.T_VALUE, n] = v
            if where:
                S.table[s.T_ADDRESS, n] = S.P[block, s.ADDRESS]
                S.table[s.T_LAST_USE, n] = S.P[block, s.LAST_USE] if v >= 0 else 0
            goes = (v >= 0) & (S.P[block, s.LOCKED] == 0) & (S.P[block, s.ADDRESS] < border)
            if goes and may_offload:
                goes = can_go(S, v)
            S.can_go[n] = goes
            n += 1
        block = S.P[block, s.NEXT]
    S.K[s.K_VISITS] += n
    S.K[s.K_LISTED] = n
    return n


@kernel
def fill_scores(S: s.State) -> None:
    """Write the scores beside it: 0 of a hole, infinite of what cannot go; the others count as computed."""
    terms = terms_of(S)
    for k in range(S.K[s.K_LISTED]):
        v = S.table[s.T_VALUE, k]
        S.score[k] = 0.0 if v < 0 else np.inf
        if S.can_go[k]:
            S.K[s.K_SCORES] += 1
            S.score[k] = score(S, terms, S.V[v, s.BLOCK], v)
