"""Makes the values of a step again that have no memory. A value is a version of a storage's bytes.

A call is an op that ran, with its arguments, so that it can run again (tracked.py). Where a value is, residency.py
knows.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial

import torch

from coopsim.live import settings
from coopsim.live.copies import bytes_of
from coopsim.live.errors import LiveError
from coopsim.live.operands import Repeats, change, on_device, repeats
from coopsim.live.room import Room
from coopsim.live.tracked import Call, Spec, TrackedStorage, Value, calls_for
from coopsim.record.observe.torch_private import DisableAutocast, DisableTorchDispatch, DispatchBelowAutograd

_EMPTY = torch.ops.aten.empty.memory_format


class Values:
    """Brings the values of one step to the device. attempt: the room's."""

    def __init__(self, room: Room) -> None:
        self.room, self.residency, self.spilled, self.attempt = room, room.residency, room.spilled, room.attempt
        self.device_type = room.residency.device_type
        self._usual = settings.now()  # of the step's beginning

    def materialize(self, wanted: Iterable[Value], protected: Collection[TrackedStorage] = ()) -> None:
        """Bring those of the wanted values to the device that are not there: from the host, or by running ops again.

        protected: tracked storages that must not be evicted meanwhile. Raises LiveError if a value cannot be made.
        """
        missing = [value for value in wanted if self.residency.memory_of(value) is None]
        if not missing:
            return
        calls = calls_for(missing, self._is_there)
        if calls is None:
            raise LiveError("a value was evicted that nothing in this step makes; please report this program")
        keep = {*protected, *(tracked for tracked, _ in missing)}
        if calls:
            self._run_all(calls, set(missing), protected)
        for value in missing:
            self._fetched(value, keep)

    def _is_there(self, value: Value) -> bool:
        """Whether a value is on the device or on the host."""
        there = self.residency.memory_of(value) is not None or self.spilled.has(value)
        return there or self.residency.copies.has((value[0].number, value[1]))

    def _fetched(self, value: Value, protected: Collection[TrackedStorage]) -> None:
        """Bring a value to the device that is there or on the host."""
        if self.residency.memory_of(value) is not None:
            return
        self.room.make(value[0].nbytes, protected)
        if self.spilled.has(value):
            self.spilled.fetch(value, partial(self.allocate, protected=protected))
        else:
            key, copies = (value[0].number, value[1]), self.residency.copies
            copies.fetch(key, partial(self.allocate, protected={*protected, value[0]}))
            if (storage := copies.arrive(key)) is not None:
                self.residency.arrived(value, storage)
                copies.arrived(key)

    def _run_all(self, calls: Sequence[Call], wanted: Collection[Value], protected: Collection[TrackedStorage]) -> None:
        """Run calls again, in this order, and let go of what only they read."""
        uses, ours = Counter(read for call in calls for read in call.reads), set[Value]()
        for call in calls:
            keep = {*protected, *(tracked for tracked, _ in call.reads)}
            for read in call.reads:
                self._fetched(read, keep)
            self.room.make(call.nbytes, keep)
            targets = [
                w
                for w in call.writes
                if not self._is_there(w) and (w in wanted or uses[w] or (w[0].evicted and w[0].version == w[1]))
            ]
            takeovers = [(t, v) for t, v in call.writes if (t, v - 1) in ours and uses[t, v - 1] == 1]
            self.run(call, targets, takeovers, keep)
            uses.subtract(call.reads)
            ours.update(w for w in (*targets, *takeovers) if w not in wanted and w[1] in w[0].held)
            for tracked, version in [value for value in call.reads if value in ours and not uses[value]]:
                tracked.held.pop(version, None)
                self.spilled.drop((tracked, version))

    def leave_plan(self) -> None:
        """Make again what a plan has evicted, so that all values are on the device or on the host from now on.

        But for what nothing in the plan makes any more, as the recorded step did not use it again. The caller may drop
        calls and held values then.
        """
        makeable = [value for value in self.residency.left if calls_for([value], self._is_there)]
        calls = calls_for(makeable, self._is_there)
        if calls:
            self._run_all(calls, set(makeable), ())
        self.spilled.forget_older()

    def run(
        self,
        call: Call,
        targets: Sequence[Value],
        takeovers: Collection[Value],
        protected: Collection[TrackedStorage] = (),
    ) -> None:
        """Run a call again, all of whose operands have memory, and keep `targets` of its results.

        takeovers: new versions that take over the memory of the version before, which only we hold and nothing needs.
        protected: tracked storages that must not be evicted if the device has no room. Raises LiveError if an operand
        is missing.
        """
        where: dict[TrackedStorage, torch.UntypedStorage] = {}
        after = dict(call.writes)
        if self.residency.streams is not None:
            self.residency.streams.before_again()
        for tracked, version in call.reads:
            memory = self.residency.memory_of((tracked, version))
            if memory is None:
                raise LiveError("a value is missing that the plan has; please report this program")
            if tracked in call.mutates:
                own = (tracked, after.get(tracked)) in takeovers and version in tracked.held
                if own and repeats(call.func) is not Repeats.NEVER:
                    del tracked.held[version]
                else:  # the older version stays; or these are statistics, which are updated once
                    memory = self.copy(memory, {*protected, *(tracked for tracked, _ in call.reads)})
            where[tracked] = memory
        made = where | self.execute(call, where, protected)
        if self.residency.streams is not None:
            self.residency.streams.after_again(where.values())
        for value in (*targets, *(t for t in takeovers if t not in targets)):
            self.residency.assign(value, made[value[0]])
        self.residency.recomputes += 1

    def execute(
        self,
        call: Call,
        where: dict[TrackedStorage, torch.UntypedStorage],
        protected: Collection[TrackedStorage] | None,
    ) -> dict[TrackedStorage, torch.UntypedStorage]:
        """Run a call again on storages of its operands; return the storages of the tracked storages that it creates.

        where: the storages, by tracked storage; those of tracked storages that it changes are changed, and not
        returned. protected: as `attempt` takes it. Raises LiveError if it makes another number of tensors than at
        first.
        """
        keep, results = None if protected is None else {*where, *protected}, list[torch.UntypedStorage | None]()
        with settings.by(call.settings or self._usual):
            if call.kept is not None:
                operands = [where[tracked] if tracked is not None else None for tracked in call.operands]
                results += self.attempt(call.func, partial(call.kept.run, operands, len(call.results)), keep)
            else:
                results += self._execute_own(call, where, keep)
        if len(results) != len(call.results):
            raise LiveError(f"{call.func} made {len(results)} tensors when run again, and {len(call.results)} before")
        found = {}
        for tracked, storage in zip(call.results, results, strict=True):
            if tracked is not None and tracked not in where and storage is not None:
                found[tracked] = storage
                self.residency.ledger.of_storage(storage)
        return found

    def _execute_own(
        self,
        call: Call,
        where: dict[TrackedStorage, torch.UntypedStorage],
        protected: Collection[TrackedStorage] | None,
    ) -> list[torch.UntypedStorage]:
        def lay(spec: Spec) -> torch.Tensor:
            if spec.tracked is None:
                return torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype, device=self.device_type)
            return spec.on(where[spec.tracked])

        with (
            DisableTorchDispatch(),
            DispatchBelowAutograd(),
            DisableAutocast(),
            torch.set_grad_enabled(call.gradients),
        ):
            args, kwargs = change(call.args, Spec, lay), change(call.kwargs, Spec, lay)
            with call.drawn.again() if call.drawn is not None else nullcontext():
                out = self.attempt(call.func, partial(call.func, *args, **kwargs), protected, call.drawn)
        return [tensor.untyped_storage() for tensor in on_device(self.device_type, (out,))]

    def copy(self, storage: torch.UntypedStorage, protected: Collection[TrackedStorage] = ()) -> torch.UntypedStorage:
        """A new storage with a copy of the bytes of another. protected: storages that must not be evicted for that."""
        copied = self.allocate(storage.nbytes(), protected)
        with DisableTorchDispatch():
            bytes_of(copied).copy_(bytes_of(storage))
        return copied

    def allocate(self, nbytes: int, protected: Collection[TrackedStorage] | None = ()) -> torch.UntypedStorage:
        """Memory of so many bytes on the device. protected: as `attempt` takes it."""
        with DisableTorchDispatch():
            make = partial(torch.empty, nbytes, dtype=torch.uint8, device=self.device_type)
            found: torch.UntypedStorage = self.attempt(_EMPTY, make, protected).untyped_storage()
        self.residency.ledger.of_storage(found)
        return found

    def finish(self) -> None:
        """At the end of the step, bring back every evicted value that the program still refers to.

        Where one finds no room, the others come back, and its error is raised; it can be called again. The caller may
        drop calls and held values then.
        """
        self.room.ending = True
        residency, evicted = self.residency, self.residency.left
        try:
            self.materialize(evicted)
        except (LiveError, torch.OutOfMemoryError):
            for value in evicted:
                with suppress(LiveError, torch.OutOfMemoryError):
                    self.materialize([value])
            if residency.left:
                raise
        residency.end()
        self.spilled.end()
