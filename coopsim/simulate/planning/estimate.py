"""What it would cost to drop a value in an interval, and how much of the excess would go: estimates."""

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.planning.dry_run_state import D_STAMP, DryRun
from coopsim.simulate.planning.ranges import sum_up_to
from coopsim.simulate.planning.request import STAY
from coopsim.simulate.planning.selection import I_AFTER, I_BEFORE, I_OPEN, I_VALUE, Selection

_FAR = 256  # ops: what needs so many to come back stays


@kernel
def cost_to_bring_back(D: DryRun, chosen: Selection, i: int) -> float:
    """The ops that must run again at the end of interval i if the value leaves, all else as decided; the first _FAR."""
    v, when = chosen.idle[i, I_VALUE], chosen.idle[i, I_BEFORE]
    D.K[D_STAMP] += 1
    stamp = D.K[D_STAMP]
    first = D.V[v, s.PRODUCER]
    for k in range(D.O[first, s.OUTS], D.O[first, s.TEMPS]):
        w = D.outs[k]
        if w != v and _leaves_within(D, chosen, w, i):
            return 0.0  # its op runs again anyway, and may bring v along
    cost = 0.0
    chosen.stack[0] = first
    chosen.stamp[first] = stamp
    depth, ops = 1, 0
    while depth > 0 and ops < _FAR:
        depth -= 1
        ops += 1
        p = chosen.stack[depth]
        cost += float(D.O[p, s.DECIDE])
        for k in range(D.O[p, s.INS], D.O[p + 1, s.INS]):
            u = D.ins[k]
            if _absent(D, chosen, u, when):
                producer = D.V[u, s.PRODUCER]
                if chosen.stamp[producer] != stamp:
                    chosen.stamp[producer] = stamp
                    chosen.stack[depth] = producer
                    depth += 1
    return cost


@inlined
def _leaves_within(D: DryRun, chosen: Selection, w: int, i: int) -> bool:
    """Whether w is dropped, and needed again, in an interval that overlaps interval i."""
    leaves = False
    for k in range(w + D.V[w, s.USES], w + D.V[w, s.USES_END]):
        if (
            D.decisions[k] != STAY
            and chosen.idle[k, I_BEFORE] > chosen.idle[i, I_AFTER]
            and chosen.idle[k, I_AFTER] < chosen.idle[i, I_BEFORE]
        ):
            leaves = True
    return leaves


@inlined
def _absent(D: DryRun, chosen: Selection, u: int, when: int) -> bool:
    """Whether u must be made again if op `when` needs it to make others. Not if it has a use left: it will be back."""
    absent = False
    if D.V[u, s.EVICTABLE]:
        at = D.V[u, s.USES]
        while at < D.V[u, s.USES_END] and D.uses[at] < when:
            at += 1
        absent = at == D.V[u, s.USES_END] and (D.decisions[u + at] != STAY or chosen.kept[u] == 0)
    return absent


@inlined
def estimated_score(D: DryRun, chosen: Selection, i: int, least: float) -> float:
    """Like _score_by_dry_run, by estimate. Only a lower bound if that is not below `least`."""
    score = np.inf
    first, last = chosen.idle[i, I_AFTER] + 1, chosen.idle[i, I_BEFORE]
    ops = chosen.over[last] - chosen.over[first]
    if ops > 0 and chosen.share[i] > 0.0:
        nbytes = D.V[chosen.idle[i, I_VALUE], s.BYTES]
        score = chosen.estimate[i] / (chosen.share[i] * float(nbytes * ops))
        if score < least:
            score = chosen.estimate[i] / (chosen.share[i] * gone(chosen, first, last, nbytes))
    return score


@inlined
def gone(chosen: Selection, first: int, last: int, nbytes: int) -> float:
    """The excess that goes if so many bytes are not there from op `first` until op `last`."""
    return float(sum_up_to(chosen.ranges, max(first, chosen.span[0]), min(last, chosen.span[1]), nbytes))


@inlined
def estimated_gain(D: DryRun, chosen: Selection, i: int) -> float:
    """The excess that goes if the value does, by estimate."""
    nbytes = D.V[chosen.idle[i, I_VALUE], s.BYTES]
    return chosen.share[i] * gone(chosen, chosen.idle[i, I_AFTER] + 1, chosen.idle[i, I_BEFORE], nbytes)


@kernel
def estimate_relatives(D: DryRun, chosen: Selection, v: int) -> None:
    """Estimate anew what it costs to drop the siblings, the inputs and the results of v's op and of its users."""
    op = D.V[v, s.PRODUCER]
    for k in range(D.O[op, s.OUTS], D.O[op, s.TEMPS]):
        estimate(D, chosen, D.outs[k])
    for k in range(D.O[op, s.INS], D.O[op + 1, s.INS]):
        estimate(D, chosen, D.ins[k])
    for j in range(D.V[v, s.USES], D.V[v, s.USES_END]):
        user = D.uses[j]
        for k in range(D.O[user, s.OUTS], D.O[user, s.TEMPS]):
            estimate(D, chosen, D.outs[k])


@inlined
def estimate(D: DryRun, chosen: Selection, v: int) -> None:
    for i in range(v + D.V[v, s.USES], v + D.V[v, s.USES_END] + 1):
        if chosen.idle[i, I_OPEN] and D.decisions[i] == STAY:
            chosen.estimate[i] = cost_to_bring_back(D, chosen, i)
            chosen.share[i] = 1.0
