"""Hands the state of a followed step over to the observer, compiled code that follows plans, and back to Python.

A plan is given to it as one array of numbers, which table.h reads.
"""

import ctypes
import weakref
from collections.abc import Callable, Iterable
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


class Observed:
    """The part of one step that the observer follows.

    known: the tracked storages of the step. storages, calls: the dictionaries of the Follow object, by number of the
    storage and of the op. All are out of date between `follow` and `fetch`.
    """

    def __init__(
        self,
        observer: Observer,
        plan: Plan,
        values: Values,
        known: TrackedStorages,
        storages: dict[int, TrackedStorage],
        calls: dict[int, Call],
    ) -> None:
        self.observer, self._plan, self._values = observer, plan, values
        self._table = plan.table(lambda: Table(load(), plan, values.device_type))
        self._known, self._storages, self._calls = known, storages, calls
        self.room, self.ledger = values.room, values.residency.ledger

    def follow(self, at: int) -> None:
        """Hand over: the observer follows the plan from entry `at` of the op log on, with what Python knows."""
        values = self._values
        known = [len(self._storages)]
        for s, tracked in self._storages.items():
            storage = tracked.ref()
            known += [s, storage._cdata if storage is not None else 0, tracked.nbytes, tracked.version]
            known += [tracked.evicted, tracked.pinned, len(tracked.held)]
            for version, held in tracked.held.items():
                known += [version, held._cdata]
        known.append(len(self._calls))
        for op, call in self._calls.items():
            known += [op, call.kept.handle if call.kept is not None else 0]
        self.observer.engage(self._table, at, known, self, values.room.ooms)
        for tracked in self._storages.values():
            tracked.held.clear()
        values.residency.evicted.clear()  # as the observer knows it from now on

    def fetch(self) -> None:
        """Take back: bring tracked storages and calls up to date."""
        residency, numbers = self._values.residency, self.observer.known()
        for _ in range(next(numbers)):
            s, storage, nbytes = next(numbers), stored(next(numbers)), next(numbers)
            tracked = self._storages.get(s)
            if tracked is None:
                tracked = self._storages[s] = self._known.enter(TrackedStorage(storage, nbytes, s))
            tracked.version, tracked.made_again = next(numbers), True
            tracked.evicted, tracked.pinned = bool(next(numbers)), bool(next(numbers))
            for _ in range(next(numbers)):
                version, held = next(numbers), stored(next(numbers))
                if held is not None:
                    tracked.held[version] = held
            if tracked.evicted and storage is not None:
                residency.evicted[tracked.key] = tracked
        for _ in range(next(numbers)):
            op, handle = next(numbers), next(numbers)
            if handle:
                row = self._plan.row_of[op]
                operands = [self._storages.get(s) for s in row.entry.inputs]
                self._calls[op] = Call(row.func, (), {}, kept=Kept(handle), operands=operands)
                self._calls[op].by_plan(self._plan, row, self._storages)
        self._stop()

    def end(self, *, over: bool) -> bool:
        """Stop following at the end of the step; True. False, and nothing is stopped, if Python has to `fetch` first.

        It has to if something is left to restore, or if the step has left the plan.

        over: whether all entries of the plan have run.
        """
        if not over or self.observer.state[State.BROKEN] or not self.observer.complete():
            return False
        self._stop()
        return True

    def _stop(self) -> None:
        residency, state = self._values.residency, self.observer.state
        residency.count(evictions=state[State.EVICTIONS], recomputes=state[State.RECOMPUTES])
        if residency.streams is not None:
            residency.streams.observed()
        self.observer.disengage()

    # -- what the observer calls Python for ----------------------------------------------------------------------------

    def again(self, op: int, operands: list[torch.UntypedStorage | None]) -> list[torch.UntypedStorage | None]:
        """Run a call again that Python has kept."""
        entry, storages = self._plan.row_of[op].entry, self._storages
        where = {storages[s]: storage for s, storage in zip(entry.inputs, operands, strict=True) if storage is not None}
        made = where | self._values.execute(self._calls[op], where, None)
        return [made.get(storages[s]) if s in storages else None for s in entry.results]

    def copy(
        self, kind: int, s: int, v: int, at: int, storage: torch.UntypedStorage | None, give: Callable[[Any], None]
    ) -> None:
        """Do what an action of a plan says to copies. kind: of action; s, v: the value; at: where on the host.

        storage: the program's. give: to be called with the memory of a value that arrives, or whether one may leave.
        """
        copies, key = self._values.residency.copies, (s, v)
        if kind == Kind.EVICT_OFFLOADED:
            give(copies.finish_offload(key))
        elif kind == Kind.ARRIVE:
            arrived = copies.arrive(key)
            give(arrived)
            if arrived is not None:
                copies.arrived(key)
        elif kind == Kind.OFFLOAD:
            assert storage is not None
            if self._plan.has_place(s, storage.nbytes()) and not self._values.residency.ledger.is_located(storage):
                copies.offload(key, storage, at)
            give(None)
        else:
            fetched = copies.fetch(key, partial(self._values.allocate, protected=None))
            if fetched is not None:
                self._values.residency.enter(fetched)
            give(None)
