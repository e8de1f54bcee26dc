"""Decide which values leave memory in which gaps, so that a round fits into a budget at little recomputation.

Greedy: again and again the gap whose dropping costs least for each byte and op by which the budget is exceeded. What
it costs is estimated from what would have to run again, and rehearsed before it is accepted; a gap that turns out
dearer than its estimate goes back in line.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.reference import Bundle
from coopsim.kernel.state import BYTES, DECIDE, EVICTABLE, INS, OUTS, PRODUCER, TEMPS, USES, USES_END, Array
from coopsim.replay.foresight.dry_run import FOR_OTHERS, HERE, NEED, R_COST, R_COUNT, R_STAMP, Rehearsal, rehearse
from coopsim.replay.plan import LEAVE, LEAVE_ONCE, STAY

# C: a row a gap. C_AFTER, C_BEFORE: the ops of the program between which it lies; the last gap of a value ends with the
# last op that needs it, as far as that is known from the decisions so far.
C_VALUE, C_AFTER, C_BEFORE, C_OPEN, C_SEEN = range(5)


class Selection(Bundle):
    """Room for the choice. Where nothing else is said, arrays have a row a gap."""

    C: Array
    estimate: NDArray[np.float64]  # cost of dropping
    score: NDArray[np.float64]  # as rehearsed, at round C_SEEN
    share: NDArray[np.float64]  # how much of the estimated gain was there when it was last rehearsed
    held: NDArray[np.int8]  # decisions, while others are tried
    over: Array  # how many ops before each exceed the budget
    excess: Array  # of each op, the bytes above the budget
    span: Array  # the first op that exceeds it, and the one after the last
    stamp: Array  # ops that a walk has counted
    stack: Array
    # of a rehearsal:
    back: Array  # as there
    peak: Array  # as there, of each op
    waiting: Array  # of each op, the bytes that stay for others until then
    made: Array  # of each value, how often it is made again for others
    kept: Array  # of each value that stays for others, whether to the end: an update in place may take its place


def selection(program: Any) -> Selection:
    """For the program of a replay."""
    V, n_ops = program.values, len(program.ops) - 1
    n_uses = V[:, USES_END] - V[:, USES]
    value = np.repeat(np.arange(len(V)), n_uses + 1)
    at = np.arange(len(value)) - value  # in uses; the last gap of a value has none
    last = at == V[value, USES_END]
    uses = np.append(program.uses, 0)
    C = np.zeros((len(value), 5), np.int64)
    C[:, C_VALUE] = value
    C[:, C_AFTER] = np.where(at == V[value, USES], V[value, PRODUCER], uses[at - 1])
    C[:, C_BEFORE] = np.where(last, C[:, C_AFTER], uses[at])
    C[:, C_OPEN] = (V[value, EVICTABLE] == 1) & (last | (C[:, C_BEFORE] - C[:, C_AFTER] > 1))
    return Selection(
        C=C,
        estimate=np.zeros(len(value)),
        score=np.zeros(len(value)),
        share=np.ones(len(value)),
        held=np.zeros(len(value), np.int8),
        over=np.zeros(n_ops + 1, np.int64),
        excess=np.zeros(n_ops, np.int64),
        span=np.zeros(2, np.int64),
        stamp=np.zeros(n_ops + 1, np.int64),
        stack=np.zeros(n_ops + 1, np.int64),
        back=np.zeros(len(value), np.int64),
        peak=np.zeros(n_ops, np.int64),
        waiting=np.zeros(n_ops, np.int64),
        made=np.zeros(len(V), np.int64),
        kept=np.zeros(len(V), np.int64),
    )


@kernel
def keep_all(R: Rehearsal) -> None:
    """Decisions to begin with: every value stays as long as an op of the program will use it."""
    for v in range(R.V.shape[0]):
        for g in range(v + R.V[v, USES], v + R.V[v, USES_END]):
            R.gaps[g] = STAY
        R.gaps[v + R.V[v, USES_END]] = LEAVE


@kernel
def take_note(R: Rehearsal, S: Selection) -> None:
    """Take note of a rehearsal. What waits for no use of its own is needed up to when it last was for others."""
    for op in range(S.peak.shape[0]):
        S.peak[op], S.waiting[op] = R.peak[op], 0
    for v in range(R.V.shape[0]):
        g = v + R.V[v, USES_END]
        S.C[g, C_BEFORE] = max(R.X[v, NEED], S.C[g, C_AFTER])
        S.kept[v] = R.X[v, HERE]
        S.made[v] = R.X[v, FOR_OTHERS]
        if S.kept[v] and R.V[v, EVICTABLE] and S.C[g, C_BEFORE] > S.C[g, C_AFTER]:
            S.waiting[S.C[g, C_BEFORE]] += R.V[v, BYTES]
    for g in range(S.back.shape[0]):
        S.back[g] = R.back[g]


@kernel
def excess(R: Rehearsal, S: Selection, budget: int) -> float:
    """Sum over the ops of the bytes above the budget; brings S.over, S.excess and S.span up to date."""
    total, count = 0.0, 0
    for op in range(R.peak.shape[0]):
        S.excess[op] = max(R.peak[op] - budget, 0)
        if S.excess[op] > 0:
            total += float(S.excess[op])
            if count == 0:
                S.span[0] = op
            S.span[1] = op + 1
            count += 1
        S.over[op + 1] = count
    return total


@kernel
def exceeds(R: Rehearsal, budget: int) -> float:
    """The same sum as `excess`, with S left as it is."""
    total = 0.0
    for op in range(R.peak.shape[0]):
        if R.peak[op] > budget:
            total += float(R.peak[op] - budget)
    return total


@kernel
def cost_to_bring_back(R: Rehearsal, S: Selection, g: int) -> float:
    """The ops that must run again at the end of gap g if the value leaves, all else as decided."""
    v, when = S.C[g, C_VALUE], S.C[g, C_BEFORE]
    R.K[R_STAMP] += 1
    stamp = R.K[R_STAMP]
    first = R.V[v, PRODUCER]
    for k in range(R.O[first, OUTS], R.O[first, TEMPS]):
        w = R.outs[k]
        if w != v and _leaves_within(R, S, w, g):
            return 0.0  # its op runs again anyway, and may bring v along
    cost = 0.0
    S.stack[0] = first
    S.stamp[first] = stamp
    depth = 1
    while depth > 0:
        depth -= 1
        p = S.stack[depth]
        cost += float(R.O[p, DECIDE])
        for k in range(R.O[p, INS], R.O[p + 1, INS]):
            u = R.ins[k]
            if _absent(R, S, u, when):
                producer = R.V[u, PRODUCER]
                if S.stamp[producer] != stamp:
                    S.stamp[producer] = stamp
                    S.stack[depth] = producer
                    depth += 1
    return cost


@inlined
def _leaves_within(R: Rehearsal, S: Selection, w: int, g: int) -> bool:
    """Whether w is dropped, and needed again, in a gap that overlaps gap g."""
    leaves = False
    for k in range(w + R.V[w, USES], w + R.V[w, USES_END]):
        if R.gaps[k] != STAY and S.C[k, C_BEFORE] > S.C[g, C_AFTER] and S.C[k, C_AFTER] < S.C[g, C_BEFORE]:
            leaves = True
    return leaves


@inlined
def _absent(R: Rehearsal, S: Selection, u: int, when: int) -> bool:
    """Whether u must be made again if op `when` needs it to make others. Not if it has a use left: it will be back."""
    absent = False
    if R.V[u, EVICTABLE]:
        at = R.V[u, USES]
        while at < R.V[u, USES_END] and R.uses[at] < when:
            at += 1
        absent = at == R.V[u, USES_END] and (R.gaps[u + at] != STAY or S.kept[u] == 0)
    return absent


@kernel
def select(R: Rehearsal, S: Selection, budget: int, most: int) -> float:
    """Drop values in gaps, from the decisions that there are, until the round fits. Returns the excess that is left.

    most: the number of rehearsals after which it gives up.
    """
    rehearse(R)
    take_note(R, S)
    cost, over = R.K[R_COST], excess(R, S, budget)
    C, now, last = S.C, 1, -1
    for g in range(C.shape[0]):
        C[g, C_SEEN] = 0
        if C[g, C_OPEN] and R.gaps[g] == STAY:
            S.estimate[g] = cost_to_bring_back(R, S, g)
            S.share[g] = 1.0
    while over > 0 and R.K[R_COUNT] < most:
        best, least = -1, np.inf
        for g in range(C.shape[0]):
            if C[g, C_OPEN] and R.gaps[g] == STAY:
                s = S.score[g] if C[g, C_SEEN] == now else _estimated_score(R, S, g, least)
                if s < least:
                    best, least = g, s
        if best < 0:
            if _try_again(R, S, now):
                continue
            if not _leave_for_longer(R, S, budget, cost, over):
                break
        elif C[best, C_SEEN] < now:
            S.score[best] = _rehearsed_score(R, S, best, budget, cost, over)
            C[best, C_SEEN] = now
            last = best
            continue
        else:
            R.gaps[best] = LEAVE_ONCE
            _estimate_relatives(R, S, C[best, C_VALUE])
        if last != best:
            rehearse(R)
        take_note(R, S)
        cost, over = R.K[R_COST], excess(R, S, budget)
        now, last = now + 1, -1
    return over


@inlined
def _estimated_score(R: Rehearsal, S: Selection, g: int, least: float) -> float:
    """Like _rehearsed_score, by estimate. Only a lower bound if that is not below `least`."""
    score = np.inf
    first, last = S.C[g, C_AFTER] + 1, S.C[g, C_BEFORE]
    ops = S.over[last] - S.over[first]
    if ops > 0 and S.share[g] > 0.0:
        nbytes = R.V[S.C[g, C_VALUE], BYTES]
        score = S.estimate[g] / (S.share[g] * float(nbytes * ops))
        if score < least:
            score = S.estimate[g] / (S.share[g] * _gain(S, first, last, nbytes))
    return score


@kernel
def _gain(S: Selection, first: int, last: int, nbytes: int) -> float:
    """The excess that goes if so many bytes are not there from op `first` until op `last`."""
    gain = 0.0
    for op in range(max(first, S.span[0]), min(last, S.span[1])):
        gain += float(min(S.excess[op], nbytes))
    return gain


@kernel
def _estimate_relatives(R: Rehearsal, S: Selection, v: int) -> None:
    """Estimate anew what it costs to drop the siblings, the inputs and the results of v's op and of its users."""
    op = R.V[v, PRODUCER]
    for k in range(R.O[op, OUTS], R.O[op, TEMPS]):
        _estimate(R, S, R.outs[k])
    for k in range(R.O[op, INS], R.O[op + 1, INS]):
        _estimate(R, S, R.ins[k])
    for j in range(R.V[v, USES], R.V[v, USES_END]):
        user = R.uses[j]
        for k in range(R.O[user, OUTS], R.O[user, TEMPS]):
            _estimate(R, S, R.outs[k])


@inlined
def _estimate(R: Rehearsal, S: Selection, v: int) -> None:
    for g in range(v + R.V[v, USES], v + R.V[v, USES_END] + 1):
        if S.C[g, C_OPEN] and R.gaps[g] == STAY:
            S.estimate[g] = cost_to_bring_back(R, S, g)
            S.share[g] = 1.0


@kernel
def _rehearsed_score(R: Rehearsal, S: Selection, g: int, budget: int, cost: int, over: float) -> float:
    """What dropping in gap g costs for each unit of excess that it takes away; infinite if it takes none away."""
    score = np.inf
    R.gaps[g] = LEAVE_ONCE
    if rehearse(R):
        gain = over - exceeds(R, budget)
        S.estimate[g] = float(R.K[R_COST] - cost)
        S.share[g] = max(gain, 0.0) / _gain(S, S.C[g, C_AFTER] + 1, S.C[g, C_BEFORE], R.V[S.C[g, C_VALUE], BYTES])
        if gain > 0.0:
            score = S.estimate[g] / gain
    R.gaps[g] = STAY
    return score


@kernel
def _try_again(R: Rehearsal, S: Selection, now: int) -> bool:
    """Line up again what gained nothing in an earlier round. False: there is no such gap."""
    found = False
    for g in range(S.C.shape[0]):
        if S.C[g, C_OPEN] and R.gaps[g] == STAY and S.share[g] == 0.0 and S.C[g, C_SEEN] < now:
            S.share[g] = 1.0
            found = True
    return found


@kernel
def _leave_for_longer(R: Rehearsal, S: Selection, budget: int, cost: int, over: float) -> bool:
    """No gap helps any more: let a value that came back early for others leave again. False: that does not help."""
    best, least = -1, np.inf
    for g in range(S.C.shape[0]):
        if S.C[g, C_OPEN] and R.gaps[g] == LEAVE_ONCE and S.over[S.C[g, C_BEFORE]] > S.over[S.C[g, C_AFTER] + 1]:
            R.gaps[g] = LEAVE
            if rehearse(R):
                gain = over - exceeds(R, budget)
                if gain > 0.0 and float(R.K[R_COST] - cost) / gain < least:
                    best, least = g, float(R.K[R_COST] - cost) / gain
            R.gaps[g] = LEAVE_ONCE
    if best >= 0:
        R.gaps[best] = LEAVE
    return best >= 0
