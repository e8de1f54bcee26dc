"""Decide which values leave memory in which intervals, so that an iteration fits into a budget.

Greedy: again and again the interval in which dropping costs least for each byte and op by which the budget is exceeded.
What it costs is estimated from what would have to run again, and confirmed by a dry run before it is accepted; an
interval that turns out more expensive than its estimate goes back in line.
"""

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.planning.at_once import LONG, leave_at_once
from coopsim.simulate.planning.dry_run import dry_run
from coopsim.simulate.planning.dry_run_state import D_COST, D_COUNT, DryRun
from coopsim.simulate.planning.request import LEAVE, LEAVE_ONCE, STAY
from coopsim.simulate.planning.returns import cost_to_bring_back, gone
from coopsim.simulate.planning.selection import (
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

_TRIED = 200  # values that might leave for longer: of more, evenly many are passed over


@kernel
def select(D: DryRun, chosen: Selection, budget: int, most: int) -> float:
    """Drop values in intervals, from the decisions that there are, until the iteration fits. Returns the excess left.

    most: the number of dry runs after which it gives up.
    """
    if D.peak.shape[0] >= LONG:
        return leave_at_once(D, chosen, budget, most)
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


@kernel
def _score_by_dry_run(D: DryRun, chosen: Selection, i: int, budget: int, cost: int, over: float) -> float:
    """What dropping in interval i costs for each unit of excess that it takes away; infinite if it takes none away."""
    score = np.inf
    D.decisions[i] = LEAVE_ONCE
    if dry_run(D):
        gain = over - exceeds(D, budget)
        chosen.estimate[i] = float(D.K[D_COST] - cost)
        chosen.share[i] = 1.0
        chosen.share[i] = max(gain, 0.0) / _estimated_gain(D, chosen, i)
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
    n = 0
    for i in range(chosen.idle.shape[0]):
        n += _might_leave(D, chosen, i)
    best, least, every, k = -1, np.inf, 1 + n // _TRIED, 0
    for i in range(chosen.idle.shape[0]):
        if _might_leave(D, chosen, i):
            k += 1
            if k % every > 0:
                continue
            D.decisions[i] = LEAVE
            if dry_run(D):
                gain = over - exceeds(D, budget)
                if gain > 0.0 and float(D.K[D_COST] - cost) / gain < least:
                    best, least = i, float(D.K[D_COST] - cost) / gain
            D.decisions[i] = LEAVE_ONCE
    if best >= 0:
        D.decisions[best] = LEAVE
    return best >= 0


@inlined
def _might_leave(D: DryRun, chosen: Selection, i: int) -> bool:
    """Whether a value comes back for others in interval i, in which ops exceed the budget."""
    first, last = chosen.idle[i, I_AFTER] + 1, chosen.idle[i, I_BEFORE]
    return (chosen.idle[i, I_OPEN] > 0) & (D.decisions[i] == LEAVE_ONCE) & (chosen.over[last] > chosen.over[first])


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
            score = chosen.estimate[i] / (chosen.share[i] * gone(chosen, first, last, nbytes))
    return score


@inlined
def _estimated_gain(D: DryRun, chosen: Selection, i: int) -> float:
    """The excess that goes if the value does, by estimate."""
    nbytes = D.V[chosen.idle[i, I_VALUE], s.BYTES]
    return chosen.share[i] * gone(chosen, chosen.idle[i, I_AFTER] + 1, chosen.idle[i, I_BEFORE], nbytes)


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
