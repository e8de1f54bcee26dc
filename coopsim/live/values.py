"""Evicts the values of a step, and recomputes them. A value is a version of a storage's bytes.

A cell is a storage of the step, with what is known of its versions; a call is an op that ran, with its arguments, so
that it can run again (cells.py). To evict is to free the memory of a value that can be made again.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch

from coopsim.live import hollow
from coopsim.live.arena.placed import Placed
from coopsim.live.cells import Call, Cell, Spec, Value, can_start_again, change, on_device
from coopsim.live.errors import LiveError
from coopsim.live.host_area import HostArea
from coopsim.live.ledger import LiveLedger
from coopsim.live.offloaded import Offloaded
from coopsim.live.sent import Sent
from coopsim.live.streams import Streams, guard
from coopsim.observe.torch_private import DisableAutocast, DisableTorchDispatch, DispatchBelowAutograd

Room = Callable[[int, Collection[Cell]], None]  #: makes room for so many bytes, without evicting these cells


_CLONE, _EMPTY = torch.ops.aten.clone.default, torch.ops.aten.empty.memory_format


def _no_room(_nbytes: int, _leave: Collection[Cell]) -> None:
    pass


class Values:
    """The values of one step on devices of one kind, "cuda" or "cpu". sent: what the step before has left there."""

    def __init__(self, kind: str, ledger: LiveLedger, area: HostArea | None = None, sent: Sent | None = None) -> None:
        self.kind, self.ledger = kind, ledger
        sent = sent if sent is not None else Sent()
        #: Evicted cells, by key, in order of eviction.
        self.gone: dict[int, Cell] = {cell.key: cell for cell in sent.begin()}
        #: Makes room for an op that has run out of memory so many times before; False if it cannot.
        self.short: Callable[[Collection[Cell], int], bool] = lambda _leave, _tries: False
        self.roomy: Callable[[], AbstractContextManager[None]] = nullcontext  #: in it, an op may exceed the budget
        self.streams = Streams() if kind == "cuda" else None  #: None on the CPU
        self.placed: Placed | None = None  #: places requests at their planned addresses; None without an arena
        self.offloaded = Offloaded(self, area or HostArea(kind), sent)
        self.evictions = self.recomputes = 0
        self.ending = False  #: whether the step is over, and all that was evicted comes back
        self.goes_on = False  #: whether the next step begins at once, so that what was sent may stay on the host

    def memory_of(self, value: Value) -> torch.UntypedStorage | None:
        """A storage that has the bytes of a value: the one held for it, or the program's; None if there is none."""
        cell, version = value
        held = cell.held.get(version)
        if held is not None:
            return held
        return cell.ref() if cell.version == version and not cell.gone else None

    def must_stay(self, cell: Cell) -> bool:
        """Whether a cell must be neither evicted nor moved, as its address is in use.

        The program or autograd knows it, or a copy to the host reads it.
        """
        storage = cell.ref()
        copied = storage is not None and self.offloaded.reads(storage)
        return cell.pinned or copied or (self.streams is not None and self.streams.needs(cell))

    def evict(self, value: Value) -> None:
        """Free the memory of a value: let go of it if it is held, and empty its storage if that has this version.

        The storage keeps its memory if it must stay; a value without memory is left as it is.
        """
        cell, version = value
        cell.held.pop(version, None)
        storage = cell.ref()
        if cell.version != version or cell.gone or storage is None or self.must_stay(cell):
            return
        for stream in cell.streams:
            guard(storage, stream)
        cell.gone = True
        self.gone[cell.key] = cell
        hollow.empty(storage)
        self.ledger.emptied(storage)
        self.evictions += 1

    def bring(self, wanted: Iterable[Value], room: Room = _no_room, now: int = 0, leave: Collection[Cell] = ()) -> None:
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
        uses = Counter(value for call in calls for value in call.reads if self.memory_of(value) is None)
        ours = set(uses).difference(wanted)
        for call in calls:
            reads = {cell for cell, _ in call.reads}
            mine = [w for w in call.writes if w in uses or w in wanted or (w[0].gone and w[0].version == w[1])]
            if any(self.memory_of(value) is None for value in mine if value in wanted or uses[value]):
                self.bring(call.reads, room, now, leave)  # what was made before may have been evicted since
                room(_size(call), leave | reads)
                last = [(c, v) for c, v in call.writes if (c, v - 1) in ours and uses[c, v - 1] == 1]
                self.run(call, mine, last, leave | reads)
                for cell in (*reads, *(cell for cell, _ in mine)):  # in use: must not be evicted first
                    cell.touched = max(cell.touched, now)
            for value in call.reads:
                if value in uses:
                    uses[value] -= 1
                    if not uses[value] and value in ours:
                        value[0].held.pop(value[1], None)
        for cell, version in ours:
            cell.held.pop(version, None)

    def _to_run(self, wanted: Iterable[Value], room: Room, leave: Collection[Cell]) -> list[Call]:
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

    def _is_missing(self, value: Value, room: Room, leave: Collection[Cell]) -> bool:
        """Whether a value has no memory, and is not on the host: from there it is fetched at once."""
        if self.memory_of(value) is not None:
            return False
        if not self.offloaded.has(value):
            return True
        room(value[0].nbytes, {*leave, value[0]})
        self.offloaded.fetch(value, leave)
        self.offloaded.arrive(value)
        return False

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
        if self.streams is not None:
            self.streams.before_again()
        for cell, version in call.reads:
            memory = self.memory_of((cell, version))
            if memory is None:
                raise LiveError("a value is missing that the plan has; please report this program")
            if cell in call.mutates:
                if (cell, after.get(cell)) in takeovers and version in cell.held:
                    del cell.held[version]
                else:  # the older version stays; or these are statistics, which are updated once
                    memory = self.copy(memory, {*leave, *(cell for cell, _ in call.reads)})
            where[cell] = memory
        made = where | self.execute(call, where, leave)
        if self.streams is not None:
            self.streams.after_again(where.values())
        for value in (*targets, *(t for t in takeovers if t not in targets)):
            self.assign(value, made[value[0]])
        self.recomputes += 1

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
                self.enter(storage)
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
            with self.roomy():
                return execute()
        tries = 0
        while True:
            try:
                return execute()
            except torch.OutOfMemoryError:
                if not self.short(leave, tries):
                    raise
            tries += 1

    def copy(self, storage: torch.UntypedStorage, leave: Collection[Cell] = ()) -> torch.UntypedStorage:
        """A new storage with a copy of the bytes of another. leave: cells that must not be evicted for that."""
        with DisableTorchDispatch():
            copied: torch.UntypedStorage = self.attempt(_CLONE, partial(_clone, storage), leave)
        self.enter(copied)
        return copied

    def move(self, storage: torch.UntypedStorage) -> None:
        """Move the bytes of a storage to newly allocated memory, and free the old; its tensors stay valid."""
        with DisableTorchDispatch():
            hollow.fill(storage, _clone(storage))

    def enter(self, storage: torch.UntypedStorage) -> None:
        """Count a storage of ours."""
        self.ledger.of(torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage))

    def assign(self, value: Value, storage: torch.UntypedStorage) -> None:
        """Give a recomputed value to the program's storage if that is empty and has this version; else hold it."""
        cell, version = value
        theirs = cell.ref() if cell.version == version else None
        if theirs is None:
            cell.held[version] = storage
        elif cell.gone:
            cell.gone, cell.made_again = False, True
            del self.gone[cell.key]
            hollow.fill(theirs, storage)
            self.ledger.emptied(storage)
            self.ledger.filled(theirs)

    def allocate(self, nbytes: int, leave: Collection[Cell] = ()) -> torch.UntypedStorage:
        """Memory of so many bytes on the device. leave: cells that must not be evicted for that."""
        with DisableTorchDispatch():
            make = partial(torch.empty, nbytes, dtype=torch.uint8, device=self.kind)
            found: torch.UntypedStorage = self.attempt(_EMPTY, make, leave).untyped_storage()
        return found

    def finish(self, cells: Iterable[Cell]) -> None:
        """At the end of the step, bring back every evicted value that the program still refers to.

        What is on the host stays there if the next step begins at once. cells: all that the step has used, whose held
        values and calls are dropped.
        """
        self.ending = True
        gone = [(cell, cell.version) for cell in self.gone.values() if cell.ref() is not None]
        try:
            if self.goes_on:
                self.offloaded.keep(cell for cell, _ in gone)
            self.bring([value for value in gone if not (self.goes_on and self.offloaded.sent.has(value))])
        finally:
            if not self.goes_on:
                self.offloaded.sent.clear()
            for cell in cells:  # cells and calls refer to each other
                cell.makers.clear()
                cell.held.clear()
            self.offloaded.end()
            if self.streams is not None:
                self.streams.end()


def _clone(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """As storage.clone(), which `unseen` watches."""
    copied = torch.UntypedStorage(storage.nbytes(), device=storage.device)  # type: ignore[no-untyped-call]
    super(torch.UntypedStorage, copied).copy_(storage)
    return copied


def _size(call: Call) -> int:
    read = {cell for cell, _ in call.reads}
    changed = sum(cell.nbytes for cell in call.mutates)
    return changed + sum(cell.nbytes for cell in call.results if cell is not None and cell not in read)
