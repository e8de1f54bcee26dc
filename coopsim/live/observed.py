"""Hands the state of a followed step over to the observer, compiled code that follows plans, and back to Python."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch

from coopsim.live.observer import Callables, Kept, Observer, State, load, stored
from coopsim.live.observer_table import ARRIVE, EVICT_OFFLOADED, OFFLOAD, Table
from coopsim.live.plan import Plan
from coopsim.live.tracked import Call, TrackedStorage
from coopsim.live.values import Values


class Observed:
    """The part of one step that the observer follows.

    storages, calls: the dictionaries of the Follow object, by number of the storage and of the op. They are out of date
    between `follow` and `fetch`.
    """

    def __init__(
        self,
        observer: Observer,
        plan: Plan,
        values: Values,
        storages: dict[int, TrackedStorage],
        calls: dict[int, Call],
    ) -> None:
        self._observer, self._plan, self._values = observer, plan, values
        self._table = plan.table(lambda: Table(load(), plan, values.device_type))
        self._storages, self._calls = storages, calls
        self.state: Any = observer.state
        roomy = _Switch(values.room.roomy) if values.room.roomy is not nullcontext else None
        self._does = Callables(self._again, self._copy, roomy, values.residency.ledger.of_storage)

    def follow(self, at: int) -> None:
        """Hand over: the observer follows the plan from entry `at` of the op log on, with what Python knows."""
        values = self._values
        known = [len(self._storages)]
        for s, tracked in self._storages.items():
            storage = tracked.ref()
            self._give(storage)
            known += [s, storage._cdata if storage is not None else 0, tracked.nbytes, tracked.version]
            known += [tracked.evicted, tracked.pinned, len(tracked.held)]
            for version, held in tracked.held.items():
                self._give(held)
                known += [version, held._cdata]
        known.append(len(self._calls))
        for op, call in self._calls.items():
            known += [op, call.kept.handle if call.kept is not None else 0]
        for coming in values.residency.copies.coming():
            self._give(coming)
        self._observer.engage(self._table, at, known, self._does, values.ooms)
        for tracked in self._storages.values():
            tracked.held.clear()
        values.residency.hand_over()

    def fetch(self) -> Iterator[TrackedStorage]:
        """Take back: bring tracked storages and calls up to date, and yield the storages that are new to Python."""
        residency = self._values.residency
        residency.count(evictions=self.state[State.EVICTIONS], recomputes=self.state[State.RECOMPUTES])
        numbers = self._observer.known()
        for _ in range(next(numbers)):
            s, storage, nbytes = next(numbers), stored(next(numbers)), next(numbers)
            tracked = self._storages.get(s)
            if tracked is None:
                tracked = self._storages[s] = TrackedStorage(storage, nbytes, s)
                yield tracked
            tracked.take_state(next(numbers), evicted=bool(next(numbers)), pinned=bool(next(numbers)))
            for _ in range(next(numbers)):
                version, held = next(numbers), stored(next(numbers))
                if held is not None:
                    tracked.held[version] = held
            if tracked.evicted and storage is not None:
                residency.take_back(tracked)
        for _ in range(next(numbers)):
            op, handle = next(numbers), next(numbers)
            if handle:
                self._keep(op, Kept(handle))
        self._observer.disengage()

    def end(self, *, over: bool) -> bool:
        """Stop following at the end of the step; True. False, and nothing is stopped, if Python has to `fetch` first.

        It has to if something is left to restore, or if the step has left the plan.

        over: whether all entries of the plan have run.
        """
        if not over or self.state[State.BROKEN] or not self._observer.complete():
            return False
        state = self.state
        self._values.residency.count(evictions=state[State.EVICTIONS], recomputes=state[State.RECOMPUTES])
        self._observer.disengage()
        return True

    def has_emptied(self, storage: torch.UntypedStorage) -> bool:
        """Whether the observer has evicted a storage, which is without memory now."""
        return bool(self.state[State.GONE]) and self._observer.has_emptied(storage)

    def pin(self, storage: torch.UntypedStorage) -> None:
        """Keep the observer from evicting a storage until the step is over."""
        self._observer.pin(storage)

    def _give(self, storage: torch.UntypedStorage | None) -> None:
        """On the CPU, let the observer count a storage that it gets, as it may free it."""
        if storage is not None and self._values.device_type == "cpu" and self._observer.count(storage):
            self._values.residency.ledger.emptied(storage)

    def _keep(self, op: int, kept: Kept) -> None:
        storages, plan = self._storages, self._plan
        row = plan.row_of[op]
        call = Call(
            row.func,
            (),
            {},
            reads=[(storages[s], v) for s, v in plan.program.reads[op]],
            mutates=[storages[s] for s in plan.mutates[op] if s in storages],
            kept=kept,
            operands=[storages.get(s) for s in row.entry.inputs],
        )
        call.made(row.entry.results, plan.program.writes[op], storages)
        self._calls[op] = call

    def _again(self, op: int, operands: list[torch.UntypedStorage | None]) -> list[torch.UntypedStorage | None]:
        """Run a call again that Python has kept, for the observer."""
        entry, storages = self._plan.row_of[op].entry, self._storages
        where = {storages[s]: storage for s, storage in zip(entry.inputs, operands, strict=True) if storage is not None}
        made = where | self._values.execute(self._calls[op], where, None)
        results = [made.get(storages[s]) if s in storages else None for s in entry.results]
        for storage in results:
            self._give(storage)
        return results

    def _copy(
        self, kind: int, s: int, v: int, at: int, storage: torch.UntypedStorage | None, give: Callable[[Any], None]
    ) -> None:
        """Do what an action of a plan says to copies, for the observer (observer.Copy)."""
        copies, key = self._values.residency.copies, (s, v)
        if kind == EVICT_OFFLOADED:
            self._give(storage)
            give(copies.finish_offload(key))
        elif kind == ARRIVE:
            arrived = copies.arrive(key)
            give(arrived)
            if arrived is not None:
                copies.arrived(key)
        elif kind == OFFLOAD:
            assert storage is not None
            copies.offload(key, storage, at)
            give(None)
        else:
            self._give(copies.fetch(key, partial(self._values.allocate, protected=None)))
            give(None)


class _Switch:
    """A function that enters a context when it is called with True, and leaves it when it is called with False."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __call__(self, enter: bool) -> None:
        if enter:
            self._inside = self._make()
            self._inside.__enter__()
        else:
            self._inside.__exit__(None, None, None)
