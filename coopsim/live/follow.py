"""Carries out a plan op by op, on the tensors of a running step.

The plan's op log has an entry for each op, and a row says what to do there (plan.py). A call is an op that can be run
again (tracked.py). The observer is compiled code that follows plans, faster.
"""

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from coopsim.live.actions import Action, Kind, Recompute, Skipped
from coopsim.live.errors import Deviation
from coopsim.live.observed import Observed, Progress
from coopsim.live.observer import Observer, State
from coopsim.live.op_runner import Ran
from coopsim.live.operands import drawn_before, on_device
from coopsim.live.plan import Plan, Row
from coopsim.live.tracked import Call, TrackedStorage, TrackedStorages
from coopsim.live.values import Values
from coopsim.record.observe.effects import is_blank


class Follow(Progress):
    """Follows a plan through one step.

    Either Python does so, or the compiled observer. While the observer does, `observed` is set, and the state of
    tracked storages and calls is known only there until `fetch`. broken: why the plan cannot be followed any further;
    "" if it can.
    """

    def __init__(self, plan: Plan, values: Values, tracked: TrackedStorages) -> None:
        super().__init__(plan, values, tracked)
        self.rows = plan.rows
        self._observed: Observed | None = None  # hands over to the observer, if that can follow
        self.observed: Observed | None = None  #: the same, while that follows
        self.state: Any = (ctypes.c_int64 * len(State.FIELDS))()  #: by State; the observer's own if there is one
        self.done = 0  #: of the actions before the next op, how many are done
        self.broken = ""
        self.started = False  #: whether the next op has begun, after the actions before it

    @property
    def at(self) -> int:
        """The number of the op log's entry that comes next, from 0; at the end of the plan, the number of its rows."""
        return int(self.state[State.AT])

    def advance(self) -> None:
        """Go on to the next entry, as the op of this one has run."""
        self.state[State.AT] += 1

    def begin(self, observer: Observer | None) -> None:
        """Start to follow the plan, from entry `at` on: by the observer if there is one, and one stream only."""
        if observer is not None and not self.plan.several_streams:
            self._observed = Observed(observer, self)
            observer.state[State.AT] = self.at
            self.state = observer.state
            self.hand_over()

    def hand_over(self) -> bool:
        """Let the observer go on, if it can and does not already. False if the plan cannot be followed any further."""
        observed, here = self._observed, self.observed is None and not self.broken
        if observed is not None and here and observed.observer.is_usual():
            self.observed = observed
            observed.follow(self.at)
        return not self.broken

    def fetch(self) -> None:
        """Let Python go on in place of the observer, with what that knows. Does nothing if Python follows already."""
        if self.observed is not None:
            self.done = self.state[State.DONE]
            if self.state[State.BROKEN]:
                self.broken = "works on other tensors"
            self.observed.fetch()
            self.observed = None  # only now, as nobody else knows what it has not handed over

    @contextmanager
    def in_python(self, storage: torch.UntypedStorage | None = None) -> Iterator[None]:
        """A context in which Python follows. With a `storage`, only if that has been evicted."""
        observed = self.observed
        if observed is not None and storage is not None and not observed.observer.has_emptied(storage):
            yield
            return
        self.fetch()
        try:
            yield
        finally:
            if observed is not None:
                self.hand_over()

    def end(self) -> None:
        """Stop following the plan, as the step is over or leaves the plan, and take back what the observer knows."""
        if self.observed is not None and self.observed.end(over=self.at == len(self.rows)):
            self.observed = None
        self.fetch()
        self._observed = None
        self.state = (ctypes.c_int64 * len(State.FIELDS))(*self.state)

    def pin(self, storage: torch.UntypedStorage) -> None:
        """Keep a storage's memory in place until the step is over: it is not evicted. Unknown ones are ignored."""
        if self.observed is not None:
            self.observed.observer.pin(storage)
        elif (tracked := self.tracked.known(storage)) is not None:
            tracked.pinned = True

    def _bind(self, watched: Iterable[tuple[int, int]], found: Sequence[torch.Tensor]) -> None:
        """Match tensors with the storages of the plan. Deviation if a storage was matched with another before.

        watched: (position in `found`, storage of the plan).
        """
        for i, s in watched:
            if i >= len(found):
                raise Deviation("has other operands")
            storage = found[i].untyped_storage()
            tracked = self.storages.get(s)
            if tracked is None:
                self.storages[s] = self.tracked.enter(TrackedStorage(storage, number=s))
            elif tracked.ref() is not storage:
                raise Deviation("works on other tensors")

    def _check_changed(self, row: Row, given: Iterable[torch.Tensor]) -> None:
        """Raise Deviation if an op that works in place would change a storage that the plan takes to be unchanged.

        given: the op's operands. row: what the plan has in its place.
        """
        expected = {self.storages[s] for _, s in row.look}
        for tensor in given:
            tracked = self.tracked.known(tensor.untyped_storage())
            if tracked is not None and tracked not in expected and self.storages.get(tracked.number) is tracked:
                raise Deviation("changes other tensors")

    def take_over(self, before: Iterable[Ran], *, held: bool = False) -> bool:
        """Follow the plan from the middle of a step whose first ops have run without it.

        True if that is done; False, with nothing evicted, if they worked on other tensors than the plan has.

        before: those ops, in order. What the plan would have evicted by now is evicted. held: they ran by another plan,
        whose held values are dropped unless this plan wants them, too.
        """
        storages: dict[int, TrackedStorage] = {}
        versions: dict[int, int] = {}
        skipped, watched = Skipped(), self.plan.watched
        for row, ran in zip(self.rows, before, strict=False):
            call = ran.call
            for numbers, found in ((row.entry.inputs, ran.inputs), (row.entry.results, ran.results)):
                for storage, tracked in zip(numbers, found, strict=True):
                    if storage in watched and (tracked is None or storages.setdefault(storage, tracked) is not tracked):
                        return False
            for action in row.before:
                skipped.note(action)
            versions |= dict(row.makes)
            skipped.hold((s, v) for s, v in row.keep if versions.get(s, v) == v)  # what the op overwrites is gone
            skipped.hold(row.copies)
            writes = self.plan.program.writes[row.entry.op]
            if row.call and call is None and writes and not is_blank(row.func):
                return False  # as another plan has not kept it
            if row.call and call is not None:
                self.calls[row.entry.op] = call
                if is_blank(row.func):  # without the plan it is not known that all of it is written later
                    call.by_plan(self.plan, row, storages)
            self.advance()
        if any(storages[s].version != version for s, version in versions.items()):
            return False
        residency, wanted = self.values.residency, skipped.values(None)
        for value in ((storages[s], v) for s, v in wanted if s in storages):
            if residency.memory_of(value) is None and value[1] not in value[0].makers:
                return False
        self.storages.update(storages)
        for s, tracked in storages.items():
            tracked.number = s
        self._hold(wanted)
        for s, version in skipped.values(Kind.EVICT):
            residency.evict((storages[s], version))
        for copy in skipped.offloads.values():
            self._act(copy)
        for copied in skipped.values(Kind.EVICT_OFFLOADED):
            self._act(Action(Kind.EVICT_OFFLOADED, copied))
        for s, tracked in storages.items() if held else ():
            for version in {v for v in tracked.held if (s, v) not in wanted}:
                del tracked.held[version]
        return True

    def taken(self) -> Iterator[Ran]:
        """The ops that have run by the plan so far, in order, in the form in which another's `take_over` takes them."""
        get = self.storages.get
        for entry in (row.entry for row in self.rows[: self.at]):
            yield Ran([*map(get, entry.inputs)], [*map(get, entry.results)], self.calls.get(entry.op))

    def run(self, row: Row, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one op, and the plan's actions before and after it; return its result.

        Raises Deviation, before anything was done, if its operands are not those of the plan.
        """
        self.started = False
        values, residency = self.values, self.values.residency
        mutable = row.entry.mutable
        if residency.streams is not None and residency.streams.number() != row.entry.stream and row.entry.op >= 0:
            raise Deviation("runs on another stream")
        if row.look or mutable:
            given = on_device(values.device_type, (*args, *kwargs.values()) if kwargs else args)
            self._bind(row.look, given)
            if mutable:
                self._check_changed(row, given)
        if row.entry.op < 0:
            self.started = True
            return row.func(*args, **kwargs)
        storages = self.storages
        for action in row.before[self.done :]:
            self._act(action)
        self.done = 0
        if residency.evicted:
            away = [(tracked, tracked.version) for _, s in row.look if (tracked := storages[s]).evicted]
            if away:  # by plan they are there
                values.materialize(away)
        if self.plan.several_streams and residency.streams is not None:
            residency.streams.use(storages[s] for _, s in row.look)
        for s, v in row.copies:
            storage = residency.memory_of((storages[s], v))
            if storage is not None and v not in storages[s].held:
                storages[s].held[v] = values.copy(storage)
        states = drawn_before(row.func, args, kwargs, values.device_type)
        operands = (storages.get(s) for s in row.entry.inputs)
        call = Call.of(row.func, args, kwargs, values.device_type, operands, states) if row.call else None
        self.started = True
        out = values.attempt(row.func, partial(row.func, *args, **kwargs), (), states)
        for s, v in row.makes:
            if s in storages:
                storages[s].version = v
        new = [s for _, s in row.find if s not in storages]
        if row.find:
            try:
                self._bind(row.find, on_device(values.device_type, (out,)))
            except Deviation as why:
                self.broken = str(why)  # the op has run, and must not run again
                return out
        if self.plan.several_streams and residency.streams is not None:
            residency.streams.made(storages[s] for s in new)
        if call is not None:
            call.by_plan(self.plan, row, storages)
            self.calls[row.entry.op] = call
        self._hold(row.keep)
        return out

    def _hold(self, values: Iterable[tuple[int, int]]) -> None:
        """Hold versions of storages, if they are the program's now, for longer than the program does."""
        for s, version in values:
            tracked = self.storages.get(s)  # None: the program has let it go
            if tracked is not None and (memory := self.values.residency.memory_of((tracked, version))) is not None:
                tracked.held.setdefault(version, memory)

    def _act(self, action: Action | Recompute) -> None:
        storages = self.storages
        if isinstance(action, Recompute):
            if (call := self.calls.get(action.op)) is None:
                return
            self.values.materialize(call.reads)  # by plan they are there
            targets, takeovers = ([(storages[s], v) for s, v in found] for found in (action.targets, action.takeovers))
            self.values.run(call, targets, takeovers)
            return
        s, v = action.value
        tracked = storages.get(s)
        if tracked is None:
            return
        if action.kind is Kind.EVICT:
            self.values.residency.evict((tracked, v))
        elif action.kind is Kind.DROP:
            tracked.held.pop(v, None)
        else:
            self._copy(action, tracked)

    def _copy(self, action: Action, tracked: TrackedStorage) -> None:
        """To the host and back, if the program has the value, and it is where the plan has it."""
        version, residency = action.value[1], self.values.residency
        storage = tracked.ref() if tracked.version == version else None
        back = action.kind in (Kind.FETCH, Kind.ARRIVE)
        if storage is None or tracked.evicted != back or (tracked.pinned and not back):
            return
        found = self.copy(action.kind, action.value, action.at, storage, (tracked,))
        if found is True:
            residency.evict((tracked, version))
        elif found is not False:
            residency.arrived((tracked, version), found)
            residency.copies.arrived(action.value)
