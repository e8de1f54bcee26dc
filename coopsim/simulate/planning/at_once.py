"""Of a long step, many intervals at a time: those of least estimated scores, if together they cost as estimated."""

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.planning.dry_run import dry_run
from coopsim.simulate.planning.dry_run_state import D_COST, DryRun, ProgramArrays
from coopsim.simulate.planning.estimate import estimated_gain, estimated_score
from coopsim.simulate.planning.request import LEAVE_ONCE, STAY
from coopsim.simulate.planning.selection import I_OPEN, I_SEEN, I_VALUE, Selection, exceeds

_SLACK = 1.25  # of the largest of the scores: more must not be paid for what goes
_NEIGHBOURS = 4  # in line for each: those next to one that leaves are often the next best


@kernel
def most_at_once(ops: int) -> int:
    """For a step of so many ops; 1 for a short one."""
    return 1 + 4 * (ops // 5000)


@kernel
def line_up(D: DryRun, chosen: Selection, at_once: int, turn: int, over: float) -> int:
    """List intervals of least scores in chosen.batch, no two of relatives, for half the excess `over`; their number."""
    n, most = 0, _NEIGHBOURS * at_once
    for i in range(chosen.idle.shape[0]):
        if chosen.idle[i, I_OPEN] and D.decisions[i] == STAY:
            worst = chosen.score[chosen.batch[0]] if n == most else np.inf
            this = estimated_score(D, chosen, i, worst)
            chosen.idle[i, I_SEEN] = 0  # its score is no dry run's any more
            chosen.score[i] = this
            if this < worst:
                n = _keep(chosen, i, n, most)
    for end in range(n - 1, 0, -1):
        chosen.batch[0], chosen.batch[end] = chosen.batch[end], chosen.batch[0]
        _sink(chosen, end)
    taken, gain = 0, 0.0
    for k in range(n):
        i = chosen.batch[k]
        if taken < at_once and gain < over / 2 and chosen.near[chosen.idle[i, I_VALUE]] != turn:
            _mark(D, chosen, chosen.idle[i, I_VALUE], turn)
            gain += estimated_gain(D, chosen, i)
            chosen.batch[taken] = i
            taken += 1
    return taken


@inlined
def _keep(chosen: Selection, i: int, n: int, most: int) -> int:
    """i is one of the n in the heap, the largest score first; in place of that one if there are as many as may be."""
    batch, score = chosen.batch, chosen.score
    if n == most:
        batch[0] = i
        _sink(chosen, n)
        return n
    k = n
    while k > 0 and score[batch[(k - 1) >> 1]] < score[i]:
        batch[k] = batch[(k - 1) >> 1]
        k = (k - 1) >> 1
    batch[k] = i
    return n + 1


@inlined
def _sink(chosen: Selection, n: int) -> None:
    """The first of the n in the heap goes where it belongs."""
    batch, score = chosen.batch, chosen.score
    i, k = batch[0], 0
    while 2 * k + 1 < n:
        child = 2 * k + 1
        if child + 1 < n and score[batch[child + 1]] > score[batch[child]]:
            child += 1
        if score[batch[child]] <= score[i]:
            break
        batch[k] = batch[child]
        k = child
    batch[k] = i


@inlined
def _mark(D: ProgramArrays, chosen: Selection, v: int, turn: int) -> None:
    """The siblings, the inputs and the results of v's op and of its users wait for the next turn."""
    op = D.V[v, s.PRODUCER]
    for k in range(D.O[op, s.OUTS], D.O[op, s.TEMPS]):
        chosen.near[D.outs[k]] = turn
    for k in range(D.O[op, s.INS], D.O[op + 1, s.INS]):
        chosen.near[D.ins[k]] = turn
    for j in range(D.V[v, s.USES], D.V[v, s.USES_END]):
        for k in range(D.O[D.uses[j], s.OUTS], D.O[D.uses[j], s.TEMPS]):
            chosen.near[D.outs[k]] = turn


@kernel
def leave_at_once(D: DryRun, chosen: Selection, n: int, budget: int, cost: int, over: float) -> bool:
    """Let the values leave in the n intervals that are listed, if that costs about what was estimated."""
    worst = chosen.score[chosen.batch[n - 1]]
    for k in range(n):
        D.decisions[chosen.batch[k]] = LEAVE_ONCE
    if dry_run(D):
        gain = over - exceeds(D, budget)
        if gain > 0.0 and float(D.K[D_COST] - cost) <= _SLACK * worst * gain:
            return True
    for k in range(n):
        D.decisions[chosen.batch[k]] = STAY
    return False
