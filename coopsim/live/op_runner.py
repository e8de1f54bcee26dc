"""Runs the ops of a step one by one, with room made for each.

While it is not known whether a step follows a plan, calls are kept: the op and its arguments, by which it can be run
again (tracked.Call).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from coopsim.live import device, refused
from coopsim.live.copies import bytes_of
from coopsim.live.operands import Drawn, changes_only, drawn_before, elsewhere, on_device, result_bytes
from coopsim.live.tracked import Call, TrackedStorage, TrackedStorages
from coopsim.live.values import Values
from coopsim.record.observe import effects
from coopsim.record.observe.describe import COLLECTIVES
from coopsim.record.observe.torch_private import DisableTorchDispatch

_SUM = torch.ops.aten.sum.default


class Ran(NamedTuple):
    """An op that has run.

    inputs, results: the tracked storages of its operands and results, by position. call: if it was kept. workspace:
    bytes that it took and gave back while it ran.
    """

    inputs: list[TrackedStorage | None]
    results: list[TrackedStorage | None]
    call: Call | None
    workspace: int = 0


class OpRunner:
    """Runs ops without a plan. meter: of a GPU's allocator; None on the CPU."""

    def __init__(self, values: Values, storages: TrackedStorages, meter: device.Meter | None) -> None:
        self._values, self._storages, self._meter = values, storages, meter
        self._residency, self._room = values.residency, values.room
        self._workspaces: dict[Any, int] = {}  # by op, the most so far
        self._now = self._before = 0  # number of ops so far; bytes allocated when the latest try of an op began
        self._keeps = False
        self._alive: list[torch.UntypedStorage] = []  # what ops have used while calls are kept

    def keep_calls(self, yes: bool) -> None:
        """Keep calls from now on, and what they read, as a plan may want them; or no more."""
        self._keeps = yes
        self._alive.clear()

    def run(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], execute: Callable[[], Any]
    ) -> tuple[Any, Ran]:
        """Run an op by `execute`, which gives its result, with its operands restored and room made for it."""
        residency, room, values, device_type = self._residency, self._room, self._values, self._residency.device_type
        self._now += 1
        if residency.streams is not None:
            residency.streams.number()
        given = (*args, *kwargs.values())
        operands = on_device(device_type, given)
        if not operands and elsewhere(device_type, given):  # a data set in the host's memory, say: not to be copied
            return execute(), Ran([], [], None)
        for tensor in operands if device_type == "cpu" else ():  # where no allocator counts them
            residency.ledger.of(tensor)
        inputs = [self._storages.of_tensor(tensor) for tensor in operands]
        parts = (self._storages.of_tensor(tensor) for tensor in effects.tensors(list(given)))  # of sparse tensors, too
        storages = list(dict.fromkeys(t for t in (*inputs, *parts) if t is not None))
        protected = set(storages)
        if residency.evicted:
            values.materialize([(t, t.version) for t in storages], protected)
        if room.limit is not None:
            needs = self._need(func, args, kwargs, operands, room.limit) + self._workspaces.get(func, 0)
            room.make(needs, protected)
        states = drawn_before(func, args, kwargs, device_type)
        call = self._call(func, args, kwargs, inputs, states) if self._keeps else None
        if residency.streams is not None:
            residency.streams.use(storages)
        out = values.attempt(func, partial(self._metered, execute), protected, states)
        if any((storage := t.ref()) is not None and storage.nbytes() != t.nbytes for t in storages):
            refused.resized()
        results = [self._storages.of_tensor(tensor) for tensor in on_device(device_type, (out,))]
        workspace = self._workspace(func)
        created = [t for t in dict.fromkeys(results) if t is not None and t not in storages and not t.touched]
        if residency.streams is not None:
            residency.streams.made(created)
        for tracked in (*storages, *created):
            tracked.touched = self._now
            if func._schema.name.startswith(COLLECTIVES):  # which may go on when the call has returned
                tracked.pinned = True
        if call is not None:
            self._made(call, results, created)
        makes = call is not None and (call.writes or (created and effects.is_blank(func)))
        return out, Ran(inputs, results, call if makes else None, workspace)

    def contents(self, storage: torch.UntypedStorage) -> tuple[int, ...]:
        """Sums over a storage's bytes, to tell whether they change; () where there are none, as on the phantom GPU.

        It comes back, if it is on the host.
        """
        values, nbytes, on_gpu = self._values, storage.nbytes(), self._residency.device_type == "cuda"
        if not nbytes or (on_gpu and not device.is_timed("cuda")):
            return ()
        tracked = self._storages.of(storage)
        values.materialize([(tracked, tracked.version)], {tracked})
        with DisableTorchDispatch():
            words = bytes_of(storage).view(torch.int64 if nbytes % 8 == 0 else torch.uint8)
            parts = words, words[: len(words) // 2], words[::2]
            sums = [values.attempt(_SUM, partial(_SUM, part, dtype=torch.int64), {tracked}) for part in parts]
            return tuple(int(one) for one in sums)

    def _made(self, call: Call, results: list[TrackedStorage | None], created: list[TrackedStorage]) -> None:
        """Enter what a call has made."""
        # An op that makes something changes what it did not make on the side, as batch norm does its statistics.
        versions = [t for t in call.mutates if not created or t.version in t.makers]
        for tracked in versions:
            tracked.version += 1
        made = [] if effects.is_blank(call.func) else created  # made again, it may be other data
        call.has_made(results, [(t, t.version) for t in (*versions, *made)])
        self._alive += [s for t in (*call.results, *(t for t, _ in call.reads)) if t is not None and (s := t.ref())]

    def _metered(self, execute: Callable[[], Any]) -> Any:
        """Run an op once. What it takes counts from here: the try before it may have begun with more on the device."""
        self._before = self._meter.start() if self._meter is not None else 0
        return execute()

    def _workspace(self, func: Any) -> int:
        """The bytes that an op took and gave back while it ran."""
        if self._meter is None:
            return 0
        found = max(self._meter.peak() - max(self._before, self._meter.now()), 0)
        self._workspaces[func] = max(self._workspaces.get(func, 0), found)
        return found

    def _call(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: list[TrackedStorage | None],
        states: Drawn | None,
    ) -> Call:
        named = effects.arguments(func, args, kwargs)
        tensors = on_device(self._residency.device_type, [named[name] for name in effects.mutated(func, named)])
        call = Call.of(func, args, kwargs, self._residency.device_type, inputs, states)
        call.reads = [(t, t.version) for t in dict.fromkeys(inputs) if t is not None]
        call.mutates = list(dict.fromkeys(t for one in tensors if (t := self._storages.of_tensor(one)) is not None))
        return call

    def _need(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[torch.Tensor], limit: int
    ) -> int:
        """Bytes of an op's results; 0 for views, and where there is ample room whatever they take. given: operands."""
        if changes_only(func):
            return 0
        if self._room.allocated + 16 * sum(t.untyped_storage().nbytes() for t in given) + (1 << 20) < limit / 2:
            return 0
        return result_bytes(func, args, kwargs, self._residency.device_type, given)
