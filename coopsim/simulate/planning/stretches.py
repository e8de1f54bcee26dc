"""Stretches of an iteration that can be planned apart, as micro-batches: nothing that may leave is needed across.

A stretch is a program of its own, in the memory that what stays throughout it leaves. Equal ones are planned once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import kernel
from coopsim.simulate.planning.draft import Draft
from coopsim.simulate.planning.dry_run_state import Q_BYTES, Q_FROM, Q_UNTIL, ProgramArrays
from coopsim.simulate.planning.program import Program

#: Plans a program within so many bytes: the decisions for it, or None if none are found.
PlanApart = Callable[[Program, int], Any]


@dataclass(frozen=True)
class Stretch:
    """Some ops of a program as one of their own, and its idle intervals of values that may leave, as numbered in both.

    beside: bytes in memory throughout, of values that the ops neither use nor drop.
    """

    program: Program
    here: s.Array
    there: s.Array
    beside: int

    def key(self, budget: int) -> bytes:
        """Equal for stretches that are planned alike."""
        it, digest = self.program, blake2b(str(budget - self.beside).encode())
        for array in (it.values, it.ops, it.ins, it.outs, it.initial, it.events):
            digest.update(repr(array.shape).encode())
            digest.update(array.tobytes())
        return digest.digest()


class Stretches:
    """The stretches of a draft's program, and the decisions for those that exceed a budget if all values stay."""

    def __init__(self, draft: Draft, plan_apart: PlanApart) -> None:
        self.draft, self.plan_apart = draft, plan_apart
        self._known: dict[bytes, Any] = {}
        draft.keep_all()
        draft.run()
        exact, residencies = draft.residencies()
        V, E = draft.program.values, draft.program.events
        self.bounds = _bounds(draft.D)
        self.peak = np.maximum.reduceat(exact.peak, self.bounds[:-1])
        self._event = np.append(np.flatnonzero(E[:, s.KIND] == s.RUN)[self.bounds[:-1]], len(E))
        self._value = V[:, s.PRODUCER].searchsorted(self.bounds)
        self._bytes = _bytes_before(self.bounds, residencies)
        self._overwritten = np.full(len(V), len(draft.program.ops))
        moved = V[:, s.IN_PLACE] == 1
        self._overwritten[V[moved, s.OLDER]] = V[moved, s.PRODUCER]

    def are_several(self) -> bool:
        """Whether more than one exceeds what the draft may have in memory."""
        return int((self.peak > self.draft.target_bytes).sum()) > 1

    def decide(self, budget: int) -> bool:
        """Decisions by which all stretches fit into the budget, and their dry run. False: none are found for one."""
        self.draft.keep_all()
        for k in np.flatnonzero(self.peak > budget).tolist():
            stretch = self._stretch(k)
            key = stretch.key(budget)
            if key not in self._known:
                self._known[key] = self.plan_apart(stretch.program, budget - stretch.beside)
            if self._known[key] is None:
                return False
            self.draft.D.decisions[stretch.there] = self._known[key][stretch.here]
        return self.draft.run()

    def _stretch(self, k: int) -> Stretch:
        whole, (a, b), (low, high) = self.draft.program, self.bounds[k : k + 2], self._value[k : k + 2]
        O, E = whole.ops[a : b + 1].copy(), whole.events[self._event[k] : self._event[k + 1]]  # noqa: E741
        ins, outs = whole.ins[O[0, s.INS] : O[-1, s.INS]], whole.outs[O[0, s.OUTS] : O[-1, s.OUTS]]
        dropped = E[~np.isin(E[:, s.KIND], (s.RUN, s.END_STEP)), s.ID]
        older = np.unique(np.concatenate([ins, dropped]))
        older = older[(older < low) & (self._overwritten[older] >= a) & (whole.values[older, s.EVICTABLE] == 0)]
        ids = np.concatenate([older, np.arange(low, high)])
        values = whole.values[ids]
        values[:, s.PRODUCER] = np.where(ids < low, -1, values[:, s.PRODUCER] - a)
        values[:, s.OLDER] = _renumbered(values[:, s.OLDER], ids)
        new_ins = _renumbered(ins, ids)
        users = np.repeat(np.arange(b - a), np.diff(O[:, s.INS]))
        values[:, s.USES_END] = np.cumsum(np.bincount(new_ins, minlength=len(ids)))
        values[:, s.USES] = np.append(0, values[:-1, s.USES_END])
        for column, first in ((s.INS, O[0, s.INS]), (s.OUTS, O[0, s.OUTS]), (s.TEMPS, O[0, s.OUTS])):
            O[:, column] -= first
        may_leave = np.flatnonzero(values[:, s.EVICTABLE])
        return Stretch(
            program=replace(
                whole,
                values=values,
                ops=O,
                ins=new_ins,
                outs=_renumbered(outs, ids),
                uses=users[np.argsort(new_ins, kind="stable")],
                initial=np.arange(len(older)),
                events=self._events(E, a, ids),
                step_cost=np.zeros(max(int((E[:, s.KIND] == s.END_STEP).sum()), 1), np.int64),
            ),
            here=_intervals(values, may_leave, may_leave),
            there=_intervals(whole.values, ids[may_leave], ids[may_leave]),
            beside=int(self._bytes[k] - values[: len(older), s.BYTES].sum()),
        )

    @staticmethod
    def _events(E: s.Array, a: int, ids: s.Array) -> s.Array:
        """The events of a stretch that begins with op a, up to the end of a step."""
        runs, ends = E[:, s.KIND] == s.RUN, E[:, s.KIND] == s.END_STEP
        events = E.copy()
        events[:, s.ID] = np.where(runs, E[:, s.ID] - a, np.where(ends, 0, _renumbered(E[:, s.ID], ids)))
        events = events[events[:, s.ID] >= 0]
        return events if ends[-1] else np.append(events, [[s.END_STEP, 0]], axis=0)


def _renumbered(values: s.Array, ids: s.Array) -> s.Array:
    """The position of each value in ids, which ascend; -1: it is not there."""
    at = np.minimum(ids.searchsorted(values), len(ids) - 1)
    return np.where(ids[at] == values, at, -1)


def _intervals(V: s.Array, numbers: s.Array, rows: s.Array) -> s.Array:
    """The numbers of all idle intervals of these values, one value after the other."""
    first, count = numbers + V[rows, s.USES], V[rows, s.USES_END] - V[rows, s.USES] + 1
    start = np.repeat(first - np.append(0, count.cumsum()[:-1]), count)
    return start + np.arange(len(start))


def _bytes_before(bounds: s.Array, residencies: s.Array) -> s.Array:
    """What is in memory before the op of each bound, if all values stay, so that each op runs once."""
    change = np.zeros(len(bounds) + 1, np.int64)
    for column, sign in ((Q_FROM, 1), (Q_UNTIL, -1)):
        np.add.at(change, bounds.searchsorted(residencies[:, column] // 2), sign * residencies[:, Q_BYTES])
    return change.cumsum()


def _bounds(D: ProgramArrays) -> s.Array:
    """Where stretches begin, and where the last ends: before each such op no value that may leave is still needed."""
    ops = len(D.O) - 1
    change = np.zeros(ops + 1, np.int64)
    _count_needed(D, np.full(len(D.V), -1), change)
    return np.concatenate([[0], 1 + np.flatnonzero(change[1:ops].cumsum() == 0), [ops]])


@kernel
def _count_needed(D: ProgramArrays, need: s.Array, change: s.Array) -> None:
    """By how much the number of values that may leave, made before an op and needed from it on, changes with the op.

    need: room for the last op that may want each value, to make others again included.
    """
    for back in range(D.O.shape[0] - 1):
        op = D.O.shape[0] - 2 - back
        last = op
        for k in range(D.O[op, s.OUTS], D.O[op, s.TEMPS]):
            if D.V[D.outs[k], s.EVICTABLE]:
                last = max(last, need[D.outs[k]])
        for k in range(D.O[op, s.INS], D.O[op + 1, s.INS]):
            need[D.ins[k]] = max(need[D.ins[k]], last)
    for v in range(D.V.shape[0]):
        if D.V[v, s.EVICTABLE] and need[v] > D.V[v, s.PRODUCER]:
            change[D.V[v, s.PRODUCER] + 1] += 1
            change[need[v] + 1] -= 1
