"""Decide which values leave memory in which intervals, so that an iteration fits into a budget.

Greedy: again and again the interval in which dropping costs least for each byte and op by which the budget is exceeded.
What it costs is estimated from what would have to run again, and confirmed by a dry run before it is accepted; an
interval that turns out more expensive than its estimate goes back in line.
"""

import numpy as np

from coopsim.kernel import state as s
from coopsim.kernel.jit import inlined, kernel
from coopsim.planning.dry_run import dry_run
from coopsim.planning.dry_run_state import D_COST, D_COUNT, D_STAMP, DryRun
from coopsim.planning.ranges import sum_up_to
from coopsim.planning.request import LEAVE, LEAVE_ONCE, STAY
from coopsim.planning.selection import (
    I_AFTER,
    I_BEFORE,
    I_OPEN,
    I_SEEN,
    I_VALUE,
    Selection,
    exceeds,
    excess,
    take_note,
)

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


@kernel
def select(D: DryRun, chosen: Selection, budget: int, most: int) -> float:
    """Drop values in intervals, from the decisions that there are, until the iteration fits. Returns the excess left.

    most: the number of dry runs after which it gives up.
    """
    dry_run(D)
    take_note(D, chosen)
    cost, over = D.K[D_COST], excess(D, chosen, budget)
    idle, now, last = chosen.idle, 1, -1
    for i in range(idle.shape[0]):
        idle[i, I_SEEN] = 0
        if idle[i, I_OPEN] and D.decisions[i] == STAY:
            chosen.estimate[i] = cost_to_bring_back(D, chosen, i)
            chosen.share[i] = 1.0
    while over > 0 and D.K[D_COUNT] < most:
        best, least = -1, np.inf
        for i in range(idle.shape[0]):
            if idle[i, I_OPEN] and D.decisions[i] == STAY:
                this = chosen.score[i] if idle[i, I_SEEN] == now else _estimated_score(D, chosen, i, least)
                if this < least:
                    best, least = i, this
        if best < 0:
            if _try_again(D, chosen, now):
                continue
            if not _leave_for_longer(D, chosen, budget, cost, over):
                break
        elif idle[best, I_SEEN] < now:
            chosen.score[best] = _score_by_dry_run(D, chosen, best, budget, cost, over)
            idle[best, I_SEEN] = now
            last = best
            continue
        else:
            D.decisions[best] = LEAVE_ONCE
            _estimate_relatives(D, chosen, idle[best, I_VALUE])
        if last != best:
            dry_run(D)
        take_note(D, chosen)
        cost, over = D.K[D_COST], excess(D, chosen, budget)
        now, last = now + 1, -1
    return over


@inlined
def _estimated_score(D: DryRun, chosen: Selection, i: int, least: float) -> float:
    """Like _score_by_dry_run, by estimate. Only a lower bound if that is not below `least`."""
    score = np.inf
    first, last = chosen.idle[i, I_AFTER] + 1, chosen.idle[i, I_BEFORE]
    ops = chosen.over[last] - chosen.over[first]
    if ops > 0 and chosen.share[i] > 0.0:
        nbytes = D.V[chosen.idle[i, I_VALUE], s.BYTES]
        score = chosen.estimate[i] / (chosen.share[i] * float(nbytes * ops))
        if score < least:
            score = chosen.estimate[i] / (chosen.share[i] * _gain(chosen, first, last, nbytes))
    return score


@inlined
def _gain(chosen: Selection, first: int, last: int, nbytes: int) -> float:
    """The excess that goes if so many bytes are not there from op `first` until op `last`."""
    return float(sum_up_to(chosen.ranges, max(first, chosen.span[0]), min(last, chosen.span[1]), nbytes))


@kernel
def _estimate_relatives(D: DryRun, chosen: Selection, v: int) -> None:
    """Estimate anew what it costs to drop the siblings, the inputs and the results of v's op and of its users."""
    op = D.V[v, s.PRODUCER]
    for k in range(D.O[op, s.OUTS], D.O[op, s.TEMPS]):
        _estimate(D, chosen, D.outs[k])
    for k in range(D.O[op, s.INS], D.O[op + 1, s.INS]):
        _estimate(D, chosen, D.ins[k])
    for j in range(D.V[v, s.USES], D.V[v, s.USES_END]):
        user = D.uses[j]
        for k in range(D.O[user, s.OUTS], D.O[user, s.TEMPS]):
            _estimate(D, chosen, D.outs[k])


@inlined
def _estimate(D: DryRun, chosen: Selection, v: int) -> None:
    for i in range(v + D.V[v, s.USES], v + D.V[v, s.USES_END] + 1):
        if chosen.idle[i, I_OPEN] and D.decisions[i] == STAY:
            chosen.estimate[i] = cost_to_bring_back(D, chosen, i)
            chosen.share[i] = 1.0


@kernel
def _score_by_dry_run(D: DryRun, chosen: Selection, i: int, budget: int, cost: int, over: float) -> float:
    """What dropping in interval i costs for each unit of excess that it takes away; infinite if it takes none away."""
    score = np.inf
    D.decisions[i] = LEAVE_ONCE
    if dry_run(D):
        gain = over - exceeds(D, budget)
        chosen.estimate[i] = float(D.K[D_COST] - cost)
        chosen.share[i] = max(gain, 0.0) / _gain(
            chosen,
            chosen.idle[i, I_AFTER] + 1,
            chosen.idle[i, I_BEFORE],
            D.V[chosen.idle[i, I_VALUE], s.BYTES],
        )
        if gain > 0.0:
            score = chosen.estimate[i] / gain
    D.decisions[i] = STAY
    return score


@kernel
def _try_again(D: DryRun, chosen: Selection, now: int) -> bool:
    """Line up again what gained nothing in an earlier turn. False: there is no such interval."""
    found = False
    for i in range(chosen.idle.shape[0]):
        if (
            chosen.idle[i, I_OPEN]
            and D.decisions[i] == STAY
            and chosen.share[i] == 0.0
            and chosen.idle[i, I_SEEN] < now
        ):
            chosen.share[i] = 1.0
            found = True
    return found


@kernel
def _leave_for_longer(D: DryRun, chosen: Selection, budget: int, cost: int, over: float) -> bool:
    """No interval helps any more: let a value that came back early for others leave again. False: no use."""
    best, least = -1, np.inf
    for i in range(chosen.idle.shape[0]):
        if (
            chosen.idle[i, I_OPEN]
            and D.decisions[i] == LEAVE_ONCE
            and chosen.over[chosen.idle[i, I_BEFORE]] > chosen.over[chosen.idle[i, I_AFTER] + 1]
        ):
            D.decisions[i] = LEAVE
            if dry_run(D):
                gain = over - exceeds(D, budget)
                if gain > 0.0 and float(D.K[D_COST] - cost) / gain < least:
                    best, least = i, float(D.K[D_COST] - cost) / gain
            D.decisions[i] = LEAVE_ONCE
    if best >= 0:
        D.decisions[best] = LEAVE
    return best >= 0
