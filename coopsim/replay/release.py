"""When the program drops a value that could be made again: banish it, or keep it as long as it is needed.

Banishing is what DTR's paper (ICLR 2021, appendix on deallocation) and RuntimeV1 of its simulator do: a value without
evicted dependents is freed and can never be made again, so what was made from it can never be evicted again. One with
evicted dependents stays, and is tried again whenever an op that has it as input has run again.
"""

from coopsim.kernel import codes
from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    EVICTABLE,
    HELD,
    LIVE,
    MADE,
    OUTS,
    PIECE,
    PINS,
    TEMPS,
    USES,
    USES_END,
    State,
)
from coopsim.replay.evict import drop
from coopsim.replay.loss.cache import is_evicted, tell
from coopsim.replay.loss.relatives import leave_evicted
from coopsim.replay.loss.walks import is_needed, resident_above
from coopsim.replay.memory import pin


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
        drop(S, v, codes.FREE)
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


@kernel
def drop_unneeded(S: State, v: int) -> None:
    """Drop v, which the program has dropped, if nothing evicted needs it; if it is not there, what waited for it."""
    if S.V[v, PIECE] >= 0:
        _drop_unneeded(S, v)
    elif S.V[v, MADE]:
        n = resident_above(S, v)
        for k in range(n):
            _drop_unneeded(S, S.scratch[k])


@inlined
def _drop_unneeded(S: State, v: int) -> None:
    if S.V[v, EVICTABLE] and S.V[v, LIVE] == 0 and S.V[v, PINS] == 0 and not is_needed(S, v):
        drop(S, v, codes.RELEASE)
