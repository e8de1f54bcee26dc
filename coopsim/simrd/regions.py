"""The evicted regions around a storage, whose costs e* adds up: below it (results made from it) and above (what it is
made from), each up to the nearest storages in memory.

simrd keeps for each storage in memory the sets of both regions, with their cost. Eviction of x lets the storages in
memory around x absorb x and the regions behind it; when an op brings storages back, it sums the regions of those and of
the storages in memory around them anew. Between ops these costs equal a walk over the evicted neighbourhood. So here
events are only queued; `settle` marks what they touch as stale, before the next choice; and a stale region is summed
when its score could be the least: until then its cost is a lower bound (the one before, if it has only grown, else 0).

While the program runs an op with missing arguments, simrd's costs differ from a walk: the op's results exist already,
not in memory, with their cost. A region that simrd sums anew in that time counts them if it reaches them, one that
absorbs such a region does so too, and any other does not: the bit SEES_NEW says which. If that op makes a view, the
view's cost is on its storage already, which regions count as it was when the storage came into them: then (K_EAGER)
each event is followed at once, as simrd does it. When the op has run, all regions that differed are summed anew.

Where a view is made of arguments in several storages, simrd's sets are not consistent; api.py refuses such traces.
"""

from coopsim.kernel.jit import inlined, kernel
from coopsim.simrd.eager import absorb_now, restore_now
from coopsim.simrd.state import (
    ARGS,
    AT,
    BOTH,
    CHILDREN,
    DOWN,
    DOWN_STALE,
    EVICTED,
    K_BORN,
    K_EAGER,
    K_EVICTED,
    K_LACKED,
    K_NEW,
    K_OP,
    K_REGIONS,
    K_RESTORED,
    K_STAMP,
    MARK,
    MATERIAL,
    PARENTS,
    PINNED,
    QUEUED_EVICTED,
    QUEUED_RESTORED,
    RESTORED,
    SEES_NEW,
    SINCE,
    STALE,
    STORAGE,
    UP,
    UP_STALE,
    Array,
    State,
)
from coopsim.simrd.walk import edge, new_stamp


@kernel
def settle(S: State) -> None:
    """Mark the regions that the queued events have touched; more than these may be marked, never less.

    One walk from all events together: where a storage on the way has come back since, it is in the queue itself.
    """
    if S.K[K_RESTORED] > 0:
        _mark_around(S, S.K[K_RESTORED], RESTORED, QUEUED_RESTORED, CHILDREN)
        if S.K[K_REGIONS] == BOTH:
            _mark_around(S, S.K[K_RESTORED], RESTORED, QUEUED_RESTORED, PARENTS)
        S.K[K_RESTORED] = 0
    if S.K[K_EVICTED] > 0:
        _mark_around(S, S.K[K_EVICTED], EVICTED, QUEUED_EVICTED, CHILDREN)
        if S.K[K_REGIONS] == BOTH:
            _mark_around(S, S.K[K_EVICTED], EVICTED, QUEUED_EVICTED, PARENTS)
        S.K[K_EVICTED] = 0


@kernel
def _mark_around(S: State, n: int, queue: int, queued: int, first: int) -> None:
    """Mark as stale what lies in memory around the regions of the first n of a queue, in the direction of `first`."""
    V, G, stack = S.V, S.G, S.stack
    stamp = new_stamp(S)
    for source in range(n):
        x = S.queue[source, queue]
        V[x, STALE] &= ~queued
        if V[x, MARK] == stamp and V[x, MATERIAL] == 0:
            continue
        V[x, MARK] = stamp
        stack[0] = x
        depth = 1
        while depth > 0:
            depth -= 1
            x = stack[depth]
            for k in range(V[x, first], V[x + 1, first]):
                if G[k, SINCE] > S.K[K_OP]:
                    break
                y = G[k, AT]
                if V[y, MARK] == stamp:
                    continue
                V[y, MARK] = stamp
                if V[y, MATERIAL] == 0:
                    stack[depth] = y
                    depth += 1
                elif V[y, PINNED] == 0:
                    V[y, STALE] |= UP_STALE if first == CHILDREN else DOWN_STALE
                    if queue == RESTORED:
                        V[y, UP if first == CHILDREN else DOWN] = 0


@inlined
def _enqueue(S: State, s: int, queue: int, queued: int, count: int) -> None:
    if S.V[s, STALE] & queued == 0:
        S.V[s, STALE] |= queued
        S.queue[S.K[count], queue] = s
        S.K[count] += 1


@kernel
def absorb(S: State, x: int) -> None:
    """x is about to be evicted: the regions of the storages in memory around it grow. Call while it is in memory."""
    if S.K[K_EAGER]:
        absorb_now(S, x)
        return
    if S.V[x, STALE] & SEES_NEW:
        for k in range(edge(S, x, PARENTS)):
            S.V[S.edge[k], STALE] |= SEES_NEW | DOWN_STALE
    _enqueue(S, x, EVICTED, QUEUED_EVICTED, K_EVICTED)


@kernel
def restore(S: State, op: int, n: int) -> None:
    """op has run again and brought back the n storages in S.fresh: their regions, and those around, are summed anew."""
    V = S.V
    if S.K[K_EAGER]:
        for k in range(n):
            restore_now(S, S.fresh[k])
        return
    for k in range(n):
        # UP is 0, as all arguments are in memory. It counts as stale all the same: while s is queued as evicted before,
        # `settle` does not mark it for evictions since.
        V[S.fresh[k], UP] = V[S.fresh[k], DOWN] = 0
        V[S.fresh[k], STALE] |= UP_STALE | DOWN_STALE
        _enqueue(S, S.fresh[k], RESTORED, QUEUED_RESTORED, K_RESTORED)
    if S.K[K_REGIONS] == BOTH and S.K[K_NEW] < S.K[K_BORN]:
        edge(S, S.K[K_NEW], PARENTS)
        stamp = S.K[K_STAMP]
        for k in range(n):
            _see(V, S.fresh[k], stamp)
        for k in range(S.O[op, ARGS], S.O[op + 1, ARGS]):
            _see(V, S.T[S.args[k], STORAGE], stamp)


@inlined
def _see(V: Array, s: int, stamp: int) -> None:
    if V[s, MARK] == stamp:
        V[s, STALE] |= SEES_NEW
    else:
        V[s, STALE] &= ~SEES_NEW


@kernel
def conclude(S: State, op: int, n: int) -> None:
    """The program's own op has made the n storages in S.fresh.

    If it had all its arguments, no region has counted the results, and none changes. If some were missing, those of
    the arguments are summed anew; nothing else has results in its region any more.
    """
    V = S.V
    for k in range(n):
        V[S.fresh[k], UP] = V[S.fresh[k], DOWN] = 0
        V[S.fresh[k], STALE] = 0
    if S.K[K_LACKED] and n > 0:
        for k in range(S.O[op, ARGS], S.O[op + 1, ARGS]):
            s = S.T[S.args[k], STORAGE]
            V[s, DOWN] = 0
            V[s, STALE] = (V[s, STALE] | DOWN_STALE) & ~SEES_NEW
