"""When the program drops a value that could be made again: banish it, or keep it as long as it is needed.

Banishing is what DTR's paper (ICLR 2021, appendix on deallocation) and RuntimeV1 of its simulator do: a value without
evicted dependents is freed and can never be made again, so what was made from it can never be evicted again. One with
evicted dependents stays, and is tried again whenever an op that has it as input has run again.
"""

from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.replay.evict import drop
from coopsim.simulate.replay.loss import is_needed, leave_evicted, resident_above
from coopsim.simulate.replay.loss_cache import invalidate, is_evicted
from coopsim.simulate.replay.memory import pin


@kernel
def try_banish(S: s.State, v: int) -> None:
    """Banish v, which the program has dropped, unless it is non-evictable, in use, banished, or needed."""
    V = S.V
    if V[v, s.EVICTABLE] == 0 or V[v, s.MADE] == 0 or V[v, s.PINS] > V[v, s.HELD]:
        return
    for u in range(V[v, s.USES], V[v, s.USES_END]):
        op = S.uses[u]
        for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
            if is_evicted(V, S.outs[k]):
                return
    for u in range(V[v, s.USES], V[v, s.USES_END]):
        op = S.uses[u]
        for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
            _hold(S, S.outs[k])
    pin(S, v, -V[v, s.HELD])
    V[v, s.HELD] = 0
    if V[v, s.BLOCK] >= 0:
        drop(S, v, codes.FREE)
    else:
        invalidate(S, v)
        leave_evicted(S, v)
    V[v, s.MADE] = 0  # nobody counts it as evicted any more


@kernel
def _hold(S: s.State, w: int) -> None:
    """Pin w for the rest of the iteration, or until it is banished itself: it cannot be made again."""
    if S.V[w, s.EVICTABLE] and S.V[w, s.MADE] and not S.V[w, s.HELD]:
        S.V[w, s.HELD] = 1
        pin(S, w, 1)


@kernel
def drop_unneeded(S: s.State, v: int) -> None:
    """Drop v, which the program has dropped, if nothing evicted needs it; if it is not there, what waited for it."""
    if S.V[v, s.BLOCK] >= 0:
        _drop_unneeded(S, v)
    elif S.V[v, s.MADE]:
        n = resident_above(S, v)
        for k in range(n):
            _drop_unneeded(S, S.scratch[k])


@inlined
def _drop_unneeded(S: s.State, v: int) -> None:
    if S.V[v, s.EVICTABLE] and S.V[v, s.LIVE] == 0 and S.V[v, s.PINS] == 0 and not is_needed(S, v):
        drop(S, v, codes.RELEASE)
