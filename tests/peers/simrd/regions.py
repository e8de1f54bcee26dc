"""The evicted regions around a storage, whose costs e* adds up: below it (results made from it) and above (what it is
made from), each up to the nearest storages in memory.

simrd keeps for each storage in memory the sets of both regions, with their cost. Eviction of x lets the storages in
memory around x absorb x and the regions behind it; when an op brings storages back, it sums the regions of those and of
the storages in memory around them anew. Between ops these costs equal a walk over the evicted neighbourhood. So here
events are only queued; `flush` marks what they touch as stale, before the next choice; and a stale region is summed
when its score could be the least: until then its cost is a lower bound (the one before, if it has only grown, else 0).

While the program runs an op with missing arguments, simrd's costs differ from a walk: the op's results exist already,
not in memory, with their cost. A region that simrd sums anew in that time counts them if it reaches them, one that
absorbs such a region does so too, and any other does not: the bit SEES_NEW says which. If that op makes a view, the
view's cost is on its storage already, which regions count as it was when the storage came into them: then (K_EAGER)
each event is followed at once, as simrd does it. When the op has run, all regions that differed are summed anew.

Where a view is made of arguments in several storages, simrd's sets are not consistent; api.py refuses such traces.
"""

from coopsim.simulate.kernel.jit import inlined, kernel
from tests.peers.simrd import state as s
from tests.peers.simrd.eager import absorb_now, restore_now
from tests.peers.simrd.walk import edge, new_stamp


@kernel
def flush(S: s.SimrdState) -> None:
    """Mark the regions that the queued events have touched; more than these may be marked, never less.

    One walk from all events together: where a storage on the way has come back since, it is in the queue itself.
    """
    if S.K[s.K_RESTORED] > 0:
        _mark_around(S, S.K[s.K_RESTORED], s.RESTORED, s.QUEUED_RESTORED, s.CHILDREN)
        if S.K[s.K_REGIONS] == s.BOTH:
            _mark_around(S, S.K[s.K_RESTORED], s.RESTORED, s.QUEUED_RESTORED, s.PARENTS)
        S.K[s.K_RESTORED] = 0
    if S.K[s.K_EVICTED] > 0:
        _mark_around(S, S.K[s.K_EVICTED], s.EVICTED, s.QUEUED_EVICTED, s.CHILDREN)
        if S.K[s.K_REGIONS] == s.BOTH:
            _mark_around(S, S.K[s.K_EVICTED], s.EVICTED, s.QUEUED_EVICTED, s.PARENTS)
        S.K[s.K_EVICTED] = 0


@kernel
def _mark_around(S: s.SimrdState, n: int, queue: int, queued: int, first: int) -> None:
    """Mark as stale what lies in memory around the regions of the first n of a queue, in the direction of `first`."""
    V, G, stack = S.V, S.G, S.stack
    stamp = new_stamp(S)
    for source in range(n):
        x = S.queue[source, queue]
        V[x, s.STALE] &= ~queued
        if V[x, s.MARK] == stamp and V[x, s.MATERIAL] == 0:
            continue
        V[x, s.MARK] = stamp
        stack[0] = x
        depth = 1
        while depth > 0:
            depth -= 1
            x = stack[depth]
            for k in range(V[x, first], V[x + 1, first]):
                if G[k, s.SINCE] > S.K[s.K_OP]:
                    break
                y = G[k, s.END]
                if V[y, s.MARK] == stamp:
                    continue
                V[y, s.MARK] = stamp
                if V[y, s.MATERIAL] == 0:
                    stack[depth] = y
                    depth += 1
                elif V[y, s.PINNED] == 0:
                    V[y, s.STALE] |= s.UP_STALE if first == s.CHILDREN else s.DOWN_STALE
                    if queue == s.RESTORED:
                        V[y, s.UP if first == s.CHILDREN else s.DOWN] = 0


@inlined
def _enqueue(S: s.SimrdState, v: int, queue: int, queued: int, count: int) -> None:
    if S.V[v, s.STALE] & queued == 0:
        S.V[v, s.STALE] |= queued
        S.queue[S.K[count], queue] = v
        S.K[count] += 1


@kernel
def absorb(S: s.SimrdState, x: int) -> None:
    """x is about to be evicted: the regions of the storages in memory around it grow. Call while it is in memory."""
    if S.K[s.K_EAGER]:
        absorb_now(S, x)
        return
    if S.V[x, s.STALE] & s.SEES_NEW:
        for k in range(edge(S, x, s.PARENTS)):
            S.V[S.edge[k], s.STALE] |= s.SEES_NEW | s.DOWN_STALE
    _enqueue(S, x, s.EVICTED, s.QUEUED_EVICTED, s.K_EVICTED)


@kernel
def restore(S: s.SimrdState, op: int, n: int) -> None:
    """op has run again and brought back the n storages in S.fresh: their regions, and those around, are summed anew."""
    V = S.V
    if S.K[s.K_EAGER]:
        for k in range(n):
            restore_now(S, S.fresh[k])
        return
    for k in range(n):
        # UP is 0, as all arguments are in memory. It counts as stale all the same: while v is queued as evicted before,
        # `flush` does not mark it for evictions since.
        V[S.fresh[k], s.UP] = V[S.fresh[k], s.DOWN] = 0
        V[S.fresh[k], s.STALE] |= s.UP_STALE | s.DOWN_STALE
        _enqueue(S, S.fresh[k], s.RESTORED, s.QUEUED_RESTORED, s.K_RESTORED)
    if S.K[s.K_REGIONS] == s.BOTH and S.K[s.K_NEW] < S.K[s.K_BORN]:
        edge(S, S.K[s.K_NEW], s.PARENTS)
        stamp = S.K[s.K_STAMP]
        for k in range(n):
            _see(V, S.fresh[k], stamp)
        for k in range(S.O[op, s.ARGS], S.O[op + 1, s.ARGS]):
            _see(V, S.T[S.args[k], s.STORAGE], stamp)


@inlined
def _see(V: s.Array, v: int, stamp: int) -> None:
    if V[v, s.MARK] == stamp:
        V[v, s.STALE] |= s.SEES_NEW
    else:
        V[v, s.STALE] &= ~s.SEES_NEW


@kernel
def conclude(S: s.SimrdState, op: int, n: int) -> None:
    """The program's own op has made the n storages in S.fresh.

    If it had all its arguments, no region has counted the results, and none changes. If some were missing, those of
    the arguments are summed anew; nothing else has results in its region any more.
    """
    V = S.V
    for k in range(n):
        V[S.fresh[k], s.UP] = V[S.fresh[k], s.DOWN] = 0
        V[S.fresh[k], s.STALE] = 0
    if S.K[s.K_LACKED] and n > 0:
        for k in range(S.O[op, s.ARGS], S.O[op + 1, s.ARGS]):
            v = S.T[S.args[k], s.STORAGE]
            V[v, s.DOWN] = 0
            V[v, s.STALE] = (V[v, s.STALE] | s.DOWN_STALE) & ~s.SEES_NEW
