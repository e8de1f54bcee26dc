"""Of a long step, many intervals at a time: a dry run confirms that they cost and gain together what was estimated.

Scores get worse as the excess goes, but for few; so only those of the best are brought up to date each time, and all of
them now and then.
"""

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.planning.dry_run import dry_run
from coopsim.simulate.planning.dry_run_state import D_COST, D_COUNT, DryRun
from coopsim.simulate.planning.request import LEAVE, LEAVE_ONCE, STAY
from coopsim.simulate.planning.returns import follow, wanted, weigh
from coopsim.simulate.planning.selection import I_SEEN, I_VALUE, Selection, exceeds, excess, take_note

LONG = 5_000  #: ops from which a step is long

_PART = 800  # of the ops, as many intervals are decided at once
_SLACK = 1.25  # of the largest of the scores: more must not be paid for what goes
_NEIGHBOURS = 8  # scores brought up to date for each: those next to one that leaves are often the next best
_TIMES = 4  # that this is done for a batch
_ALL = 8  # batches, after which all scores are brought up to date
_MOST = 0.9  # of the excess, that is to go at once
_ALIKE = 1.5  # times the least of the scores: others wait for the next turn, but for a quarter of a batch
_NEARLY = 32  # an op that leaves less than this part of the budget is full


@kernel
def leave_at_once(D: DryRun, chosen: Selection, budget: int, most: int) -> float:
    """As select.select."""
    dry_run(D)
    cost, over = _note(D, chosen, budget)
    for i in range(chosen.share.shape[0]):
        chosen.share[i], chosen.idle[i, I_SEEN] = 1.0, 0
    for v in range(chosen.needed.shape[0]):
        chosen.needed[v] = chosen.leaving[v] = 0
    turn, at_once, stale, went, to = 0, 2, _ALL, False, LEAVE_ONCE
    while over > 0.0 and D.K[D_COUNT] < most:
        if stale == _ALL:
            for i in range(chosen.score.shape[0]):
                weigh(D, chosen, i, to)
            stale = 0
        turn += 1
        n = _line_up(D, chosen, to, at_once, turn, over)
        if n == 0:
            if stale > 0:
                stale = _ALL
            elif went and _try_again(chosen):
                went, stale = False, _ALL
            elif to == LEAVE_ONCE:
                to, stale = LEAVE, _ALL
            else:
                break
        elif _let_leave(D, chosen, to, n, budget, cost, over):
            cost, over = _note(D, chosen, budget)
            at_once, stale, went = min(2 * at_once, D.peak.shape[0] // _PART), stale + 1, True
        elif n > 1:
            at_once = n // 2
        else:
            i, gain, paid = chosen.batch[0], over - exceeds(D, budget), float(D.K[D_COST] - cost)
            worse = min(gain / chosen.gain[i], 1.0) * min(chosen.estimate[i] / max(paid, 1.0), 1.0)
            chosen.share[i] = chosen.share[i] * min(worse, 0.5) if gain > 0.0 else 0.0
            weigh(D, chosen, i, to)
    return over


@inlined
def _note(D: DryRun, chosen: Selection, budget: int) -> tuple[int, float]:
    """Take note of the dry run. Its cost, and its excess."""
    take_note(D, chosen)
    for op in range(D.peak.shape[0]):
        chosen.full[op + 1] = chosen.full[op] + (D.peak[op] > budget - budget // _NEARLY)
    return D.K[D_COST], excess(D, chosen, budget)


@kernel
def _line_up(D: DryRun, chosen: Selection, to: int, at_once: int, turn: int, over: float) -> int:
    """List intervals of least scores in chosen.batch, none of which matters to another; their number."""
    line, score, most, taken, gain, least = chosen.line, chosen.score, _NEIGHBOURS * at_once, 0, 0.0, np.inf
    for _ in range(_TIMES):
        n = 0
        for i in range(score.shape[0]):
            if score[i] < (score[line[0]] if n == most else np.inf) and chosen.idle[i, I_SEEN] != turn:
                n = _keep(chosen, i, n, most)
        worst = score[line[0]] if n == most else np.inf
        for k in range(n):
            weigh(D, chosen, line[k], to)
        for k in range(n // 2 - 1, -1, -1):
            _sink(chosen, k, n)
        for end in range(n - 1, 0, -1):
            line[0], line[end] = line[end], line[0]
            _sink(chosen, 0, end)
        for k in range(n):
            i = line[k]
            least = min(least, score[i])
            if taken == at_once or gain >= _MOST * over or (4 * taken >= at_once and score[i] > _ALIKE * least):
                return taken
            if score[i] <= _ALIKE * worst and score[i] < np.inf:
                chosen.idle[i, I_SEEN] = turn
                if not _matters(D, chosen, i, to, turn):
                    gain += chosen.gain[i]
                    chosen.batch[taken] = i
                    taken += 1
        if n < most:
            break
    return taken


@inlined
def _keep(chosen: Selection, i: int, n: int, most: int) -> int:
    """i is one of the n in the heap, the largest score first; in place of that one if there are as many as may be."""
    line, score = chosen.line, chosen.score
    if n == most:
        line[0] = i
        _sink(chosen, 0, n)
        return n
    k = n
    while k > 0 and score[line[(k - 1) >> 1]] < score[i]:
        line[k] = line[(k - 1) >> 1]
        k = (k - 1) >> 1
    line[k] = i
    return n + 1


@inlined
def _sink(chosen: Selection, k: int, n: int) -> None:
    """The one at k of the n in the heap goes where it belongs, below that."""
    line, score = chosen.line, chosen.score
    i = line[k]
    while 2 * k + 1 < n:
        child = 2 * k + 1
        if child + 1 < n and score[line[child + 1]] > score[line[child]]:
            child += 1
        if score[line[child]] <= score[i]:
            break
        line[k] = line[child]
        k = child
    line[k] = i


@kernel
def _matters(D: DryRun, chosen: Selection, i: int, to: int, turn: int) -> bool:
    """Whether the value of interval i is needed for others of this turn to come back, or one of these for it.

    If not, it is noted.
    """
    v, n = chosen.idle[i, I_VALUE], follow(D, chosen, i, wanted(D, chosen, i, to), np.inf, False)
    if chosen.needed[v] == turn:
        return True
    for noting in range(2):
        for h in range(n):
            op = chosen.stack[h] >> 1
            for k in range(D.O[op, s.INS], D.O[op + 1, s.INS]):
                if noting:
                    chosen.needed[D.ins[k]] = turn
                elif chosen.leaving[D.ins[k]] == turn:
                    return True
    chosen.leaving[v] = turn
    return False


@kernel
def _let_leave(D: DryRun, chosen: Selection, to: int, n: int, budget: int, cost: int, over: float) -> bool:
    """Let the values leave in the n intervals that are listed, if that costs about what was estimated."""
    worst = 0.0
    for k in range(n):
        i = chosen.batch[k]
        worst = max(worst, chosen.score[i])
        chosen.held[i] = D.decisions[i]
        D.decisions[i] = to if D.decisions[i] == STAY else LEAVE
    if dry_run(D):
        gain = over - exceeds(D, budget)
        if gain > 0.0 and float(D.K[D_COST] - cost) <= _SLACK * worst * gain:
            return True
    for k in range(n):
        D.decisions[chosen.batch[k]] = chosen.held[chosen.batch[k]]
    return False


@inlined
def _try_again(chosen: Selection) -> bool:
    """Let what gained nothing in an earlier turn be tried again. False: there is no such interval."""
    found = False
    for i in range(chosen.share.shape[0]):
        if chosen.share[i] == 0.0:
            chosen.share[i] = 1.0
            found = True
    return found
