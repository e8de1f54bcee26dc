"""Hands the state of a followed step over to the observer, compiled code that follows plans, and back to Python.

A plan is given to it as one array of numbers, which table.h reads.
"""

import ctypes
import weakref
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

import torch

from coopsim.live.actions import Action, Kind, Recompute
from coopsim.live.observer import Kept, Observer, State, load, stored
from coopsim.live.operands import Repeats, draws, repeats
from coopsim.live.plan import Plan, Row
from coopsim.live.tracked import Call, TrackedStorage, TrackedStorages
from coopsim.live.values import Values

_AGAIN = 2  #: the kind of Recompute in table.h


class Table:
    """A plan in the memory of the observer's library. device_type: "cuda" or "cpu"."""

    def __init__(self, lib: Any, plan: Plan, device_type: str) -> None:
        rows = plan.rows
        schemas = [getattr(row.func, "_schema", None) for row in rows]
        names = [(schema.name if schema else "").encode() for schema in schemas]
        overloads = [(schema.overload_name if schema else "").encode() for schema in schemas]
        called = [row for row in rows if row.call]
        numbers = [device_type == "cuda", len(plan.program.bytes), len(plan.program.reads), len(called)]
        for row in called:
            numbers += [row.entry.op, *_made(plan, row)]
        numbers.append(len(rows))
        for row in rows:
            numbers += _row(plan, row)
        text = ctypes.c_char_p * len(rows)
        array = (ctypes.c_int64 * len(numbers))(*numbers)
        self.handle = ctypes.c_void_p(lib.coopsim_table(array, text(*names), text(*overloads)))
        weakref.finalize(self, lib.coopsim_free_table, self.handle).atexit = False


def _made(plan: Plan, row: Row) -> list[int]:
    """The numbers of what an op reads and makes."""
    op = row.entry.op
    return [
        *_counted(row.entry.inputs),
        *_counted(row.entry.results),
        *_counted(sorted(plan.mutates[op])),
        *_pairs(plan.program.reads[op]),
        *_pairs(plan.program.writes[op]),
        repeats(row.func) is not Repeats.NEVER,
    ]


def _row(plan: Plan, row: Row) -> list[int]:
    entry = row.entry
    view = entry.op < 0
    creates = any(s < 0 or s not in entry.inputs for s in entry.results)
    changes = entry.mutable and bool(plan.watched)
    op = hasattr(row.func, "_schema")
    again, draw = (repeats(row.func), draws(row.func)) if op else (Repeats.ALWAYS, 0)
    numbers = [entry.op if row.call else -1, changes, again, draw, creates, view]
    numbers += _counted(row.elements)
    for pairs in (row.look, [] if view else row.find, row.makes, row.copies, row.keep):
        numbers += _pairs(pairs)
    numbers.append(len(row.before))
    for action in row.before:
        numbers += _action(action)
    return numbers


def _action(action: Action | Recompute) -> list[int]:
    if isinstance(action, Recompute):
        return [_AGAIN, action.op, *_pairs(action.targets), *_pairs(action.takeovers)]
    return [action.kind, *action.value, action.at]


def _counted(numbers: Iterable[int]) -> list[int]:
    found = list(numbers)
    return [len(found), *found]


def _pairs(pairs: Iterable[tuple[int, int]]) -> list[int]:
    found = list(pairs)
    return [len(found), *(number for pair in found for number in pair)]


class Progress:
    """How far a step has followed a plan: what both followers know, though not at the same time.

    tracked: all tracked storages of the step. storages: those that the plan watches, by number in its trace. calls:
    that were kept, by number of the op.
    """

    def __init__(self, plan: Plan, values: Values, tracked: TrackedStorages) -> None:
        self.plan, self.values, self.tracked = plan, values, tracked
        self.storages: dict[int, TrackedStorage] = {}
        self.calls: dict[int, Call] = {}

    def copy(
        self,
        kind: int,
        value: tuple[int, int],
        at: int,
        storage: torch.UntypedStorage,
        protected: Collection[TrackedStorage] | None = None,
    ) -> torch.UntypedStorage | bool:
        """Do what an action says of the copies of a value on the host, where one lies from `at` on.

        storage: the program's. protected: as Room.attempt takes it. Returns the memory of a value that arrives, or
        whether one may leave.
        """
        residency, copies = self.values.residency, self.values.residency.copies
        if kind == Kind.EVICT_OFFLOADED:
            return copies.finish_offload(value)
        if kind == Kind.ARRIVE:
            return copies.arrive(value) or False
        if kind == Kind.FETCH:
            copies.fetch(value, partial(self.values.allocate, protected=protected))
        elif self.plan.has_place(value[0], storage.nbytes()) and not residency.ledger.is_located(storage):
            copies.offload(value, storage, at)
        return False

    def run_again(self, op: int, operands: list[torch.UntypedStorage | None]) -> list[torch.UntypedStorage | None]:
        """Run a call again that Python has kept, for the observer."""
        entry, storages = self.plan.row_of[op].entry, self.storages
        where = {storages[s]: storage for s, storage in zip(entry.inputs, operands, strict=True) if storage is not None}
        made = where | self.values.execute(self.calls[op], where, None)
        return [made.get(storages[s]) if s in storages else None for s in entry.results]


class Observed:
    """The part of one step that the observer follows: `progress` is out of date between `follow` and `fetch`."""

    def __init__(self, observer: Observer, progress: Progress) -> None:
        self.observer, self._progress, plan = observer, progress, progress.plan
        plan.table = self._table = plan.table or Table(load(), plan, progress.values.device_type)

    def follow(self, at: int) -> None:
        """Hand over: the observer follows the plan from entry `at` of the op log on, with what Python knows."""
        progress = self._progress
        known = [len(progress.storages)]
        for s, tracked in progress.storages.items():
            storage = tracked.ref()
            known += [s, storage._cdata if storage is not None else 0, tracked.nbytes, tracked.version]
            known += [tracked.evicted, tracked.pinned, len(tracked.held)]
            for version, held in tracked.held.items():
                known += [version, held._cdata]
        known.append(len(progress.calls))
        for op, call in progress.calls.items():
            known += [op, call.kept.handle if call.kept is not None else 0]
        self.observer.engage(self._table, at, known, progress)
        for tracked in progress.storages.values():
            tracked.held.clear()
        progress.values.residency.evicted.clear()  # as the observer knows it from now on

    def fetch(self) -> None:
        """Take back: bring tracked storages and calls up to date."""
        progress, numbers = self._progress, self.observer.known()
        storages, evicted = progress.storages, progress.values.residency.evicted
        for _ in range(next(numbers)):
            s, storage, nbytes = next(numbers), stored(next(numbers)), next(numbers)
            tracked = storages.get(s)
            if tracked is None:
                tracked = storages[s] = progress.tracked.enter(TrackedStorage(storage, nbytes, s))
            tracked.version, tracked.made_again = next(numbers), True
            tracked.evicted, tracked.pinned = bool(next(numbers)), bool(next(numbers))
            for _ in range(next(numbers)):
                version, held = next(numbers), stored(next(numbers))
                if held is not None:
                    tracked.held[version] = held
            if tracked.evicted and storage is not None:
                evicted[tracked.key] = tracked
        for _ in range(next(numbers)):
            op, handle = next(numbers), next(numbers)
            if handle:
                row = progress.plan.row_of[op]
                operands = [storages.get(s) for s in row.entry.inputs]
                progress.calls[op] = call = Call(row.func, (), {}, kept=Kept(handle), operands=operands)
                call.by_plan(progress.plan, row, storages)
        self._stop()

    def end(self, *, over: bool) -> bool:
        """Stop following at the end of the step; True. False, and nothing is stopped, if Python has to `fetch` first.

        It has to if something is left to restore, or if the step has left the plan. over: whether all entries of the
        plan have run.
        """
        if not over or self.observer.state[State.BROKEN] or not self.observer.complete():
            return False
        self._stop()
        return True

    def _stop(self) -> None:
        residency, state = self._progress.values.residency, self.observer.state
        residency.evictions += state[State.EVICTIONS]
        residency.recomputes += state[State.RECOMPUTES]
        if residency.streams is not None:
            residency.streams.observed()
        self.observer.disengage()
