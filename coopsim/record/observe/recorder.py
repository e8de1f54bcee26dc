"""Record the ops that PyTorch dispatches: those that make or change data on the device."""

from collections.abc import Callable
from typing import Any

import torch

from coopsim.base.types import Phase, Role
from coopsim.record.observe import accumulation, costs, effects
from coopsim.record.observe.device import Device
from coopsim.record.observe.device_data import DeviceData
from coopsim.record.observe.effects import tensors
from coopsim.record.observe.interpose.mode import Interposed
from coopsim.record.observe.native import NativeLedger, ledger
from coopsim.record.observe.recording import Free, Op, Recording
from coopsim.record.observe.storages import Ledger, Storage
from coopsim.record.observe.timing import Timer
from coopsim.record.observe.where import Where

MADE = "storage.made"  #: stands for the op of a value that no dispatched op makes


class Recorder(Interposed):
    """Watches a whole program, so that it knows all storages, and records ops between `start` and `stop`.

    Views, and other ops that neither create nor mutate a storage, are not recorded, except for collectives.
    """

    lifts = True

    def __init__(self, device: Device, model: costs.OpCostModel) -> None:
        super().__init__()
        self.ledger: Ledger | NativeLedger = Ledger() if self.active else ledger()
        self.where = Where()
        self.device = device
        self.cost_model = model
        self.data: DeviceData | None = None
        self.timer: Timer | None = None
        self._recording: Recording | None = None
        self._streams: dict[int, int] = {0: 0}

    def answer_by(self, data: DeviceData) -> DeviceData:
        """From now on, let `data` say what the device's data are, as no kernel runs; return it."""
        self.data = data
        return data

    def time_ops(self) -> None:
        """Measure the time of each op from now on."""
        self.timer = Timer()

    def start(self) -> Recording:
        """Start to record, and return the recording, which grows until `stop`; the ledger's peak is of it alone."""
        segments = self.device.layout()
        found = Recording(segments=segments or [])
        found.begin_with(self.ledger.alive())
        self.ledger.recording_starts(segments, lambda storage: found.events.append(Free(storage)))
        for storage in found.start:
            storage.pending = False
        self.cost_model.precisions.forget()
        self.where.autocast = False
        self.device.history.start()
        self._recording = found
        return found

    def stop(self) -> None:
        """Stop recording ops. The ledger still follows storages; if nothing is being recorded, nothing changes."""
        self.ledger.catch_up()
        self._recording = None
        self.ledger.recording_ends()

    @property
    def records(self) -> bool:
        """Whether it is recording now."""
        return self._recording is not None

    def made(self, buffer: torch.Tensor) -> None:
        """Note memory that was allocated without an op: the first op or kernel that writes to it counts as its creator.

        On the phantom GPU its storage is zeroed.
        """
        storage = self.ledger.of(buffer)
        if storage is not None:
            storage.pending = True
            self.device.clear(buffer)
            self.ledger.look_at_peak()  # no op may follow while it is alive

    def resize(self, untyped: torch.UntypedStorage, resize: Callable[[], Any]) -> Any:
        """Call `resize`, which resizes a storage without an op, and return its result. FSDP1 frees layers in this way.

        While recording, an op `storage.resize_` is recorded if the storage got new memory.
        """
        newest, to = self.ledger.newest, self._recording
        if to is None:
            out = resize()
            self.ledger.of_storage(untyped)
            return out
        self.ledger.catch_up()
        op = Op(to.dispatched, *self._unseen("storage.resize_"))
        to.dispatched += 1
        self.device.history.enter(op.number)
        out = resize()
        self.device.history.leave(op.number)
        self.ledger.catch_up()
        storage = self.ledger.of_storage(untyped)
        if storage is not None and storage.serial > newest:
            op.creates.append(storage)
            to.known.add(storage)
            to.events.append(op)
        return out

    def kernel(
        self, name: str, reads: list[torch.Tensor], writes: list[torch.Tensor], launch: Callable[[], Any]
    ) -> Any:
        """Call `launch`, which launches a kernel without the dispatcher, and return its result.

        While recording, an op `name` with these reads and writes is recorded; its cost is that of the bytes that it
        moves.
        """
        to = self._recording
        if to is None:
            return launch()
        self.ledger.catch_up()
        named = {f"in{i}": t for i, t in enumerate(reads)} | {f"out{i}": t for i, t in enumerate(writes)}
        read, changed = self._operands(to, named, {f"out{i}" for i in range(len(writes))})
        op = Op(
            number=to.dispatched,
            name=name,
            phase=self.where.phase(mutates_gradient=any(s.role is Role.GRADIENT for s in changed)),
            module=self.where.module(),
            stream=self._stream(),
            reads=[storage for storage in read if storage not in changed],
            mutates=[],
            bytes_moved=sum(read.values()) + sum(changed.values()),
        )
        op.cost_ns = self.cost_model.moving(op.bytes_moved)
        op.creates, op.mutates = _born(to, changed)
        to.dispatched += 1
        self.device.history.enter(op.number)
        out = launch()
        self.device.history.leave(op.number)
        to.events.append(op)
        return out

    def __torch_dispatch__(
        self, func: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the op, which PyTorch dispatches here, and record it if a recording is under way."""
        kwargs = kwargs or {}
        # `adds_up` looks at the stack: no other frame of ours may be between it and this one
        if self.active and func is accumulation.ADD and accumulation.adds_up(args, self._born_in(args[0])):
            func = accumulation.ADD_IN_PLACE
        if self.data is None or not hasattr(func, "_schema"):
            return self._see(func, args, kwargs)
        newest = self.ledger.newest
        with self.data.asked(func, args, kwargs) as kwargs:
            out = self._see(func, args, kwargs)
        return self.data.after(func, args, kwargs, out, newest)

    def _see(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._recording is None or not hasattr(func, "_schema"):
            newest = self.ledger.newest
            out = self._call(func, args, kwargs)
            for tensor in tensors(out):
                storage = self.ledger.of(tensor)
                if storage is not None and storage.serial > newest:
                    storage.node = accumulation.node()
                    self._clear(tensor, args)
            return out
        return self._record(self._recording, func, args, kwargs)

    def _record(self, to: Recording, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.ledger.catch_up()
        named = effects.arguments(func, args, kwargs)
        reads, mutates = self._operands(to, named, effects.mutated(func, named))
        born, changed = _born(to, mutates)
        op = Op(
            number=to.dispatched,
            timed=self.timer.calls if self.timer else -1,
            name=str(func),
            phase=self.where.phase(mutates_gradient=any(s.role is Role.GRADIENT for s in mutates)),
            module=self.where.module(),
            stream=self._stream(),
            reads=list(reads),
            mutates=changed,
            creates=born,
            random=effects.is_random(func, named),
        )
        to.dispatched += 1
        newest = self.ledger.newest
        self.device.history.enter(op.number)
        out = self._call(func, args, kwargs)
        self.device.history.leave(op.number)
        collective = self.device.collective()
        at = len(to.events)
        to.events.append(op)  # before the results are looked at: the storage that resize_ drops goes after the op
        self.ledger.catch_up()
        for tensor in tensors(out):
            storage = self.ledger.of(tensor)
            if storage is not None and storage.serial > newest and storage not in op.creates:
                op.creates.append(storage)
                to.known.add(storage)
                storage.node = accumulation.node()
                self._clear(tensor, args)
        if not op.creates and not op.mutates and collective is None:
            del to.events[at]
            return out
        if op.creates and not op.reads and any(t.device.type == "cpu" for t in _first(args)):
            for storage in op.creates:
                storage.role = Role.INPUT  # a batch that comes from the host
        if collective is not None:
            op.peers, op.bytes_moved, op.cost_ns = collective.ranks, collective.bytes, collective.cost_ns
            op.stream = self._number(collective.stream)
            return out
        twice = sum(nbytes for storage, nbytes in mutates.items() if storage in op.mutates)
        op.bytes_moved = sum(reads.values()) + 2 * twice + sum(s.nbytes for s in op.creates)
        call = self.cost_model.call(func, args, kwargs, named, out, op.bytes_moved)
        op.flops, op.cost_ns = call.flops, self.cost_model.nanoseconds(op.name, call)
        return out

    def _born_in(self, value: Any) -> int | None:
        storage = next((self.ledger.of(tensor) for tensor in tensors(value)), None)
        return storage.node if storage is not None else None

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.timer is None:
            return func(*args, **kwargs)
        return self.timer.run(str(func), lambda: func(*args, **kwargs))

    def _operands(
        self, to: Recording, named: dict[str, Any], changed: set[str]
    ) -> tuple[dict[Storage, int], dict[Storage, int]]:
        """Return the storages that a call reads, and those that it mutates, each with the bytes that it accesses."""
        reads: dict[Storage, int] = {}
        mutates: dict[Storage, int] = {}
        for name, value in named.items():
            group = mutates if name in changed else reads
            for tensor in tensors(value):
                storage = self.ledger.of(tensor)
                if storage is None:
                    continue
                if storage not in to.known and not storage.pending:
                    self._appeared(to, storage)
                looked_at = min(tensor.numel() * tensor.element_size(), storage.nbytes)
                group[storage] = max(group.get(storage, 0), looked_at)
        return reads, mutates

    def _appeared(self, to: Recording, storage: Storage) -> None:
        """Record an operand that no op was seen to make, as a value of torch.tensor's.

        Its storage was resized, or its memory allocated, without an op; or it was there at the start.
        """
        if storage.resized:
            op = Op(to.dispatched, *self._unseen("storage.resize_"), creates=[storage])
        elif self.ledger.is_younger(storage, self.device.layout):
            op = Op(to.dispatched, *self._unseen(MADE), creates=[storage], bytes_moved=storage.nbytes)
            op.cost_ns = self.cost_model.moving(storage.nbytes)
            storage.role = storage.role or Role.INPUT  # its values come from the host
        else:
            to.begin_with([storage])
            return
        to.known.add(storage)
        to.events.append(op)
        to.dispatched += 1

    def _unseen(self, name: str) -> tuple[str, Phase, str, int, list[Storage], list[Storage]]:
        phase, module = self.where.phase(mutates_gradient=False), self.where.module()
        return name, phase, module, self._stream(), [], []

    def _clear(self, result: torch.Tensor, args: tuple[Any, ...]) -> None:
        """Zero a kernel's result on the phantom GPU, whatever an earlier copy left at its address.

        Otherwise a program that reads results, as GradScaler does, would read garbage. Results that may be a plain copy
        of the first argument, with its dtype and strides, are left as they are: copies are done for real.
        """
        first = [t for t in _first(args) if t.layout is torch.strided]
        if not any(t.dtype is result.dtype and t.stride() == result.stride() for t in first):
            self.device.clear(result)

    def _stream(self) -> int:
        """Return the number of the current stream, in order of appearance; the default stream is 0."""
        return self._number(self.device.stream())

    def _number(self, stream: int) -> int:
        return self._streams.setdefault(stream, len(self._streams))


def _born(to: Recording, written: dict[Storage, int]) -> tuple[list[Storage], list[Storage]]:
    """Split the storages that an op writes to into those that it creates, pending so far, and those that it mutates."""
    born = [storage for storage in written if storage.pending]
    for storage in born:
        storage.pending = False
    to.known.update(born)
    return born, [storage for storage in written if storage not in born]


def _first(args: tuple[Any, ...]) -> list[torch.Tensor]:
    """Return the first argument if it is a tensor, on whatever device."""
    return [value for value in args[:1] if isinstance(value, torch.Tensor)]
