"""Keeping what is needed: what the program has dropped stays as long as something evicted would be made from it."""

from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import EVICTABLE, LIVE, MADE, PIECE, PINS, State
from coopsim.replay.evict import RELEASE, drop
from coopsim.replay.walks import is_needed, resident_above


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
        drop(S, v, RELEASE)
