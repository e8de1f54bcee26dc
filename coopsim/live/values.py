"""Makes the values of a step again that have no memory. A value is a version of a storage's bytes.

A cell is a storage of the step, with what is known of its versions; a call is an op that ran, with its arguments, so
that it can run again (cells.py). Where a value is, residency.py knows.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from coopsim.live.cells import Call, Cell, Spec, Value
from coopsim.live.errors import LiveError
from coopsim.live.operands import can_start_again, change, on_device
from coopsim.live.residency import Residency, Where, clone
from coopsim.live.room import Room
from coopsim.observe.torch_private import DisableAutocast, DisableTorchDispatch, DispatchBelowAutograd

MakeRoom = Callable[[int, Collection[Cell]], None]  #: makes room for so many bytes, without evicting these cells


_CLONE, _EMPTY = torch.ops.aten.clone.default, torch.ops.aten.empty.memory_format


def _no_room(_nbytes: int, _leave: Collection[Cell]) -> None:
    pass


class Values:
    """Runs the ops of one step, and runs them again to make its values. room: makes room where memory runs short."""

    def __init__(self, residency: Residency, room: Room) -> None:
        self.kind, self.residency, self.room = residency.kind, residency, room

    def bring(
        self, wanted: Iterable[Value], room: MakeRoom = _no_room, now: int = 0, leave: Collection[Cell] = ()
    ) -> None:
        """Recompute those of the wanted values that have no memory, and what they are made from.

        Intermediate values are freed as soon as all that needs them has run, unless the program refers to them. now:
        the time of this use, as Cell.touched. leave: cells that must not be evicted meanwhile. Raises LiveError if a
        value cannot be recomputed.
        """
        wanted = list(wanted)
        leave = {*leave, *(cell for cell, _ in wanted)}
        calls = self._to_run(wanted, room, leave)
        if not calls:
            return
        uses = Counter(value for call in calls for value in call.reads if self.residency.memory_of(value) is None)
        ours = set(uses).difference(wanted)
        for call in calls:
            reads = {cell for cell, _ in call.reads}
            mine = [w for w in call.writes if w in uses or w in wanted or (w[0].gone and w[0].version == w[1])]
            if any(self.residency.memory_of(value) is None for value in mine if value in wanted or uses[value]):
                self.bring(call.reads, room, now, leave)  # what was made before may have been evicted since
                room(_size(call), leave | reads)
                last = [(c, v) for c, v in call.writes if (c, v - 1) in ours and uses[c, v - 1] == 1]
                self.run(call, mine, last, leave | reads)
                for cell in (*reads, *(cell for cell, _ in mine)):  # in use: must not be evicted first
                    cell.use(now)
            for value in call.reads:
                if value in uses:
                    uses[value] -= 1
                    if not uses[value] and value in ours:
                        value[0].held.pop(value[1], None)
        for cell, version in ours:
            cell.held.pop(version, None)

    def _to_run(self, wanted: Iterable[Value], room: MakeRoom, leave: Collection[Cell]) -> list[Call]:
        """The calls that make those of these values that have no memory, in an order in which they can run.

        Values that are on the host are fetched; these need no call.
        """
        found: dict[Call, None] = {}
        stack = [(value, False) for value in wanted if self._is_missing(value, room, leave)]
        while stack:
            value, ready = stack.pop()
            call = self._maker(value)
            if ready:
                found[call] = None
            elif call not in found:
                stack.append((value, True))
                stack += [(read, False) for read in call.reads if self._is_missing(read, room, leave)]
        return list(found)

    def _is_missing(self, value: Value, room: MakeRoom, leave: Collection[Cell]) -> bool:
        """Whether a value has no memory, and is not on the host: from there it is fetched at once."""
        where = self.residency.where(value)
        if where is Where.HOST:
            room(value[0].nbytes, {*leave, value[0]})
            self.fetch(value, leave)
            self.residency.arrive(value)
        return where is Where.NOWHERE

    def _maker(self, value: Value) -> Call:
        cell, version = value
        if version not in cell.makers:
            raise LiveError("a value was evicted that nothing in this step makes; please report this program")
        return cell.makers[version]

    def run(
        self, call: Call, targets: Sequence[Value], takeovers: Collection[Value], leave: Collection[Cell] = ()
    ) -> None:
        """Run a call again, all of whose operands have memory, and keep `targets` of its results.

        takeovers: new versions that take over the memory of the version before, which only we hold and nothing needs.
        leave: cells that must not be evicted if the device has no room. Raises LiveError if an operand is missing.
        """
        where: dict[Cell, torch.UntypedStorage] = {}
        after = dict(call.writes)
        if self.residency.streams is not None:
            self.residency.streams.before_again()
        for cell, version in call.reads:
            memory = self.residency.memory_of((cell, version))
            if memory is None:
                raise LiveError("a value is missing that the plan has; please report this program")
            if cell in call.mutates:
                if (cell, after.get(cell)) in takeovers and version in cell.held:
                    del cell.held[version]
                else:  # the older version stays; or these are statistics, which are updated once
                    memory = self.copy(memory, {*leave, *(cell for cell, _ in call.reads)})
            where[cell] = memory
        made = where | self.execute(call, where, leave)
        if self.residency.streams is not None:
            self.residency.streams.after_again(where.values())
        for value in (*targets, *(t for t in takeovers if t not in targets)):
            self.residency.assign(value, made[value[0]])
        self.residency.count(recomputes=1)

    def execute(
        self, call: Call, where: dict[Cell, torch.UntypedStorage], leave: Collection[Cell]
    ) -> dict[Cell, torch.UntypedStorage]:
        """Run a call again on storages of its operands; return the storages of the cells that it creates.

        where: the storages, by cell; those of cells that it changes are changed, and not returned. leave: cells that
        must not be evicted if the device has no room. Raises LiveError if it makes another number of tensors than at
        first.
        """
        results = (self._execute_kept if call.kept is not None else self._execute_own)(call, where, {*where, *leave})
        if len(results) != len(call.results):
            raise LiveError(f"{call.func} made {len(results)} tensors when run again, and {len(call.results)} before")
        found = {}
        for cell, storage in zip(call.results, results, strict=True):
            if cell is not None and cell not in where and storage is not None:
                found[cell] = storage
                self.residency.enter(storage)
        return found

    def _execute_kept(
        self, call: Call, where: dict[Cell, torch.UntypedStorage], leave: Collection[Cell]
    ) -> list[torch.UntypedStorage | None]:
        assert call.kept is not None
        operands = [where[cell] if cell is not None else None for cell in call.operands]
        made: list[torch.UntypedStorage | None]
        made = self.attempt(call.func, partial(call.kept.run, operands, len(call.results)), leave)
        return made

    def _execute_own(
        self, call: Call, where: dict[Cell, torch.UntypedStorage], leave: Collection[Cell]
    ) -> list[torch.UntypedStorage | None]:
        def lay(spec: Spec) -> torch.Tensor:
            if spec.cell is None:
                return torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype, device=self.kind)
            return spec.on(where[spec.cell])

        with (
            DisableTorchDispatch(),
            DispatchBelowAutograd(),
            DisableAutocast(),
            torch.set_grad_enabled(call.gradients),
        ):
            args, kwargs = change(call.args, Spec, lay), change(call.kwargs, Spec, lay)
            if call.generator is not None and call.state is not None:
                now = call.generator.get_state()
                call.generator.set_state(call.state)
            try:
                out = self.attempt(call.func, partial(call.func, *args, **kwargs), leave)
            finally:
                if call.generator is not None:
                    call.generator.set_state(now)
        return [tensor.untyped_storage() for tensor in on_device(self.kind, (out,))]

    def attempt(self, func: Any, execute: Callable[[], Any], leave: Collection[Cell]) -> Any:
        """Run an op by `execute`, and again as often as it runs out of memory and room can be made.

        An op that changes a list of tensors cannot be run again, so it may exceed the budget. leave: cells that must
        not be evicted. Returns the op's result, and raises what the last attempt raises.
        """
        if not can_start_again(func):
            with self.room.roomy():
                return execute()
        tries = 0
        while True:
            try:
                return execute()
            except torch.OutOfMemoryError:
                if not self.room.short(leave, tries):
                    raise
            tries += 1

    def copy(self, storage: torch.UntypedStorage, leave: Collection[Cell] = ()) -> torch.UntypedStorage:
        """A new storage with a copy of the bytes of another. leave: cells that must not be evicted for that."""
        with DisableTorchDispatch():
            copied: torch.UntypedStorage = self.attempt(_CLONE, partial(clone, storage), leave)
        self.residency.enter(copied)
        return copied

    def allocate(self, nbytes: int, leave: Collection[Cell] = ()) -> torch.UntypedStorage:
        """Memory of so many bytes on the device. leave: cells that must not be evicted for that."""
        with DisableTorchDispatch():
            make = partial(torch.empty, nbytes, dtype=torch.uint8, device=self.kind)
            found: torch.UntypedStorage = self.attempt(_EMPTY, make, leave).untyped_storage()
        return found

    def fetch(self, value: Value, leave: Collection[Cell] = ()) -> None:
        """Begin to fetch a value that is on the host only. leave: cells that must not be evicted for that."""
        self.residency.fetch(value, partial(self.allocate, leave={*leave, value[0]}))

    def begin(self, places: Mapping[Cell, int]) -> None:
        """Begin to follow a plan: only these cells are on the host then, each in the area from its place on."""
        others = [cell for cell in self.residency.sent if cell not in places]
        self.bring([(cell, cell.version) for cell in others if cell.ref() is not None])
        self.residency.gather(places)

    def finish(self, cells: Iterable[Cell], *, goes_on: bool) -> None:
        """At the end of the step, bring back every evicted value that the program still refers to.

        goes_on: the next step begins at once, so what is on the host stays there. cells: all that the step has used,
        whose held values and calls are dropped.
        """
        self.room.end()
        residency = self.residency
        gone = [(cell, cell.version) for cell in residency.gone.values() if cell.ref() is not None]
        try:
            if goes_on:
                residency.keep(cell for cell, _ in gone)
            stays = set(residency.sent) if goes_on else set()
            self.bring([(cell, version) for cell, version in gone if cell not in stays])
        finally:
            for cell in cells:
                cell.let_go()
            residency.end(goes_on=goes_on)


def _size(call: Call) -> int:
    read = {cell for cell, _ in call.reads}
    changed = sum(cell.nbytes for cell in call.mutates)
    return changed + sum(cell.nbytes for cell in call.results if cell is not None and cell not in read)
