"""Banishing: what the program has dropped goes for good as soon as nothing evicted could need it.

DTR's paper (ICLR 2021, appendix on deallocation) and RuntimeV1 of its simulator, whose rule this is: a value without
evicted dependents is freed and can never be made again, so what was made from it can never be evicted again. One with
evicted dependents stays, and is tried again whenever an op that has it as input has run again.
"""

from coopsim.kernel.jit import kernel
from coopsim.kernel.state import (
    EVICTABLE,
    HELD,
    MADE,
    OUTS,
    PIECE,
    PINS,
    TEMPS,
    USES,
    USES_END,
    State,
)
from coopsim.replay.evict import FREE, drop
from coopsim.replay.memory import pin
from coopsim.replay.relatives import leave_evicted
from coopsim.replay.watch import is_evicted, tell


@kernel
def try_banish(S: State, v: int) -> None:
    """Banish v, which the program has dropped, unless it is fixed, in use, banished, or needed by something evicted."""
    V = S.V
    if V[v, EVICTABLE] == 0 or V[v, MADE] == 0 or V[v, PINS] > V[v, HELD]:
        return
    for u in range(V[v, USES], V[v, USES_END]):
        op = S.uses[u]
        for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
            if is_evicted(V, S.outs[k]):
                return
    for u in range(V[v, USES], V[v, USES_END]):
        op = S.uses[u]
        for k in range(S.O[op, OUTS], S.O[op, TEMPS]):
            _hold(S, S.outs[k])
    pin(S, v, -V[v, HELD])
    V[v, HELD] = 0
    if V[v, PIECE] >= 0:
        drop(S, v, FREE)
    else:
        tell(S, v)
        leave_evicted(S, v)
    V[v, MADE] = 0  # nobody counts it as evicted any more


@kernel
def _hold(S: State, w: int) -> None:
    """Pin w for the rest of the round, or until it is banished itself: it cannot be made again."""
    if S.V[w, EVICTABLE] and S.V[w, MADE] and not S.V[w, HELD]:
        S.V[w, HELD] = 1
        pin(S, w, 1)
