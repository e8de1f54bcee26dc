"""Idle intervals of values, what is decided for them, and by how much an iteration exceeds the budget.

The fewest bytes in which an iteration could run: where these are more than there are, no plan is looked for.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import kernel
from coopsim.simulate.kernel.reference import Bundle
from coopsim.simulate.planning.dry_run_state import FOR_OTHERS, HERE, NEED, DryRun, DryRunCounts
from coopsim.simulate.planning.program import Program
from coopsim.simulate.planning.ranges import fill, new_ranges
from coopsim.simulate.planning.request import LEAVE, STAY, Copying

# idle: a row per idle interval of a value. I_AFTER, I_BEFORE: the ops of the program between which it lies; the last
# interval of a value ends with the last op that needs it, as far as that is known from the decisions so far. I_ENDS: of
# a value that only the host has when the iteration begins, in the interval before its first use (COMES), or when it
# ends, in the one after its last (GOES).
I_VALUE, I_AFTER, I_BEFORE, I_OPEN, I_SEEN, I_ENDS = range(6)
COMES, GOES = 1, 2


class IdleIntervals(Bundle):
    """What dropping values in their idle intervals would cost and gain: a row per interval."""

    idle: s.Array
    estimate: NDArray[np.float64]  # cost of dropping
    times: s.Array  # how often it is paid (returns.py)
    early: NDArray[np.float64]  # bytes by full ops that come back too early for it
    gain: NDArray[np.float64]  # the excess that goes, by estimate
    score: NDArray[np.float64]  # by the dry run of turn I_SEEN
    share: NDArray[np.float64]  # how much of the estimated gain was there at its last dry run
    held: NDArray[np.int8]  # decisions, while others are tried


class Excess(Bundle):
    """By how much ops exceed the budget (`excess` below brings it up to date)."""

    over: s.Array  # how many ops before each exceed the budget
    full: s.Array  # how many of them leave little of it, or nothing
    excess: s.Array  # of each op, the bytes above the budget
    span: s.Array  # the first op that exceeds it, and the one after the last
    ranges: s.Array  # of chosen.excess (ranges.py)


class Noted(Bundle):
    """What was noted of the dry run by the decisions that others are compared with (`take_note`)."""

    back: s.Array  # of each interval, as there
    peak: s.Array  # of each op, as there
    peaks: s.Array  # of chosen.peak (ranges.py), where `prune` needs it
    waiting: s.Array  # of each op, the bytes that stay for others until then
    made: s.Array  # of each value, how often it is made again for others
    kept: s.Array  # of each value that stays for others, whether to the end: an update in place may take its place


class ChosenCopies(Bundle):
    """In which idle intervals values are offloaded: a row per interval."""

    away: s.Array  # the op before which the copy back begins; -1: it is not offloaded
    left: s.Array  # the op before which it has left if it is; -1: when the copy ends


class Selection(IdleIntervals, Excess, Noted, ChosenCopies):
    """All of it, and room for walks over ops. A function that takes one of its parts uses no other."""

    line: s.Array  # intervals of the least scores
    batch: s.Array  # those of them that are decided at once
    needed: s.Array  # of each value, the last turn in which another of these needed it
    leaving: s.Array  # of each value, the last turn in which it was one of these
    stamp: s.Array  # ops that a walk has counted
    stack: s.Array


def selection(program: Any, copying: Copying | None = None) -> Selection:
    """For the program of a replay. copying: of values that only the host has when it begins or ends, if there are."""
    V, n_ops = program.values, len(program.ops) - 1
    n_uses = V[:, s.USES_END] - V[:, s.USES]
    value = np.repeat(np.arange(len(V)), n_uses + 1)
    at = np.arange(len(value)) - value  # in uses; the last interval of a value has none
    last = at == V[value, s.USES_END]
    uses = np.append(program.uses, 0)
    idle = np.zeros((len(value), 6), np.int64)
    idle[:, I_VALUE] = value
    idle[:, I_AFTER] = np.where(at == V[value, s.USES], V[value, s.PRODUCER], uses[at - 1])
    idle[:, I_BEFORE] = np.where(last, idle[:, I_AFTER], uses[at])
    idle[:, I_OPEN] = is_open(V, idle)
    if copying is not None:
        used = V[:, s.USES] < V[:, s.USES_END]
        comes, goes = copying.absent[used[copying.absent]], copying.leaving
        idle[comes + V[comes, s.USES], I_ENDS] = COMES
        idle[goes + V[goes, s.USES_END], I_ENDS] = GOES
    return Selection(
        idle=idle,
        estimate=np.zeros(len(value)),
        times=np.zeros(len(value), np.int64),
        early=np.zeros(len(value)),
        gain=np.zeros(len(value)),
        score=np.zeros(len(value)),
        share=np.ones(len(value)),
        held=np.zeros(len(value), np.int8),
        over=np.zeros(n_ops + 1, np.int64),
        full=np.zeros(n_ops + 1, np.int64),
        excess=np.zeros(n_ops, np.int64),
        span=np.zeros(2, np.int64),
        ranges=new_ranges(n_ops),
        peaks=new_ranges(n_ops),
        line=np.zeros(n_ops + 16, np.int64),
        batch=np.zeros(n_ops + 16, np.int64),
        needed=np.zeros(len(V), np.int64),
        leaving=np.zeros(len(V), np.int64),
        stamp=np.zeros(n_ops + 1, np.int64),
        stack=np.zeros(n_ops + 1, np.int64),
        back=np.zeros(len(value), np.int64),
        peak=np.zeros(n_ops, np.int64),
        waiting=np.zeros(n_ops, np.int64),
        made=np.zeros(len(V), np.int64),
        away=np.full(len(value), -1, np.int64),
        left=np.full(len(value), -1, np.int64),
        kept=np.zeros(len(V), np.int64),
    )


def is_open(V: s.Array, idle: s.Array) -> Any:
    """Of each interval, whether its value may leave in it to be made again."""
    value = idle[:, I_VALUE]
    last = np.arange(len(idle)) - value == V[value, s.USES_END]
    return (V[value, s.EVICTABLE] == 1) & (last | (idle[:, I_BEFORE] - idle[:, I_AFTER] > 1))


def is_narrow(program: Program) -> Any:
    """Of each value, whether what its op makes is less than what that op is made to read of values that may leave."""
    V, O = program.values, program.ops  # noqa: E741
    n_ins, n_outs = np.diff(O[:, s.INS]), O[:-1, s.TEMPS] - O[:-1, s.OUTS]
    ops = np.arange(len(O) - 1)
    ins, outs = np.repeat(ops, n_ins), np.repeat(ops, np.diff(O[:, s.OUTS]))
    read = np.bincount(ins, V[program.ins, s.BYTES] * V[program.ins, s.EVICTABLE], len(ops))
    kept = np.arange(len(program.outs)) - O[outs, s.OUTS] < n_outs[outs]
    made = np.bincount(outs, V[program.outs, s.BYTES] * kept, len(ops))
    return (V[:, s.PRODUCER] >= 0) & (read > made)[V[:, s.PRODUCER]]


@kernel
def keep_all(D: DryRun) -> None:
    """Decisions to begin with: every value stays as long as an op of the program will use it."""
    for v in range(D.V.shape[0]):
        for i in range(v + D.V[v, s.USES], v + D.V[v, s.USES_END]):
            D.decisions[i] = STAY
        D.decisions[v + D.V[v, s.USES_END]] = LEAVE


@kernel
def take_note(D: DryRun, chosen: Selection) -> None:
    """Take note of a dry run. What waits for no use of its own is needed up to when it last was for others."""
    for op in range(chosen.peak.shape[0]):
        chosen.peak[op], chosen.waiting[op] = D.peak[op], 0
    for v in range(D.V.shape[0]):
        i = v + D.V[v, s.USES_END]
        chosen.idle[i, I_BEFORE] = max(D.X[v, NEED], chosen.idle[i, I_AFTER])
        chosen.kept[v] = D.X[v, HERE]
        chosen.made[v] = D.X[v, FOR_OTHERS]
        if chosen.kept[v] and D.V[v, s.EVICTABLE] and chosen.idle[i, I_BEFORE] > chosen.idle[i, I_AFTER]:
            chosen.waiting[chosen.idle[i, I_BEFORE]] += D.V[v, s.BYTES]
    for i in range(chosen.back.shape[0]):
        chosen.back[i] = D.back[i]


@kernel
def excess(D: DryRunCounts, chosen: Excess, budget: int) -> float:
    """Sum over the ops of the bytes above the budget; brings chosen.over, chosen.excess and chosen.span up to date."""
    total, count, first, last = 0.0, 0, chosen.span[0], chosen.span[1]
    chosen.span[0] = chosen.span[1] = 0
    for op in range(D.peak.shape[0]):
        chosen.excess[op] = max(D.peak[op] - budget, 0)
        if chosen.excess[op] > 0:
            total += float(chosen.excess[op])
            if count == 0:
                chosen.span[0] = op
            chosen.span[1] = op + 1
            count += 1
        chosen.over[op + 1] = count
    if last > first:
        fill(chosen.ranges, chosen.excess, first, last)
    if count > 0:
        fill(chosen.ranges, chosen.excess, chosen.span[0], chosen.span[1])
    return total


@kernel
def exceeds(D: DryRunCounts, budget: int) -> float:
    """The same sum as `excess`, with `chosen` left as it is."""
    total = 0.0
    for op in range(D.peak.shape[0]):
        if D.peak[op] > budget:
            total += float(D.peak[op] - budget)
    return total


def least_bytes(program: Program, copying: Copying | None) -> int:
    """Most bytes while an op of the program runs, if nothing is there but what it needs and what cannot leave.

    What cannot leave is what may neither be made again nor be offloaded. A lower bound for any plan: a new version that
    may take over the place of the older one counts as nothing.
    """
    V = program.values
    stays = V[:, s.EVICTABLE] == 0
    if copying is not None:
        stays &= copying.rows[:, s.OFFLOADABLE] == 0
    here = np.zeros(len(V), np.int64)
    here[program.initial] = stays[program.initial]
    ops = program.ops, program.ins, program.outs
    return int(_most_bytes(V, *ops, program.events, stays.astype(np.int64), here))


@kernel
def _most_bytes(V: s.Array, O: s.Array, ins: s.Array, outs: s.Array, E: s.Array, stays: s.Array, here: s.Array) -> int:  # noqa: E741
    """As least_bytes; here: whether each value is in memory, at first those that stay of what is there at the start."""
    held = 0
    for v in range(len(here)):
        held += here[v] * V[v, s.BYTES]
    most = held
    for e in range(len(E)):
        kind, at = E[e, s.KIND], E[e, s.ID]
        if kind == s.RUN:
            needed = held
            for k in range(O[at, s.INS], O[at + 1, s.INS]):
                needed += (1 - here[ins[k]]) * V[ins[k], s.BYTES]
            for k in range(O[at, s.OUTS], O[at + 1, s.OUTS]):
                needed += (1 - V[outs[k], s.IN_PLACE]) * V[outs[k], s.BYTES]
            most = max(most, needed)
            for k in range(O[at, s.OUTS], O[at, s.TEMPS]):
                v = outs[k]
                if V[v, s.IN_PLACE]:
                    held -= here[V[v, s.OLDER]] * V[V[v, s.OLDER], s.BYTES]
                    here[V[v, s.OLDER]] = 0
                held += stays[v] * V[v, s.BYTES]
                here[v] = stays[v]
        elif kind in (s.DROP, s.GONE) and here[at]:
            here[at] = 0
            held -= V[at, s.BYTES]
    return most
