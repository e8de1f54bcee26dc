"""Runs the ops of a step one by one, and keeps the call of each, so that whatever it made can be evicted.

To keep a call is to keep the op and its arguments, by which it can be run again (tracked.Call). A value is a version of
a storage's bytes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from coopsim.live import device, drawn, refused
from coopsim.live.operands import change, changes_only, elsewhere, on_device, result_bytes
from coopsim.live.residency import Residency
from coopsim.live.room import Room
from coopsim.live.tracked import Call, Spec, TrackedStorage, TrackedStorages
from coopsim.live.values import Values
from coopsim.live.written import is_blank
from coopsim.observe import effects
from coopsim.observe.data_sizes import sized_by_data


class Ran(NamedTuple):
    """An op that has run, and what came of it.

    out: its result. inputs, results: the tracked storages of its operands and results, by position. call: if it was
    kept. workspace: bytes that it took and gave back while it ran.
    """

    out: Any
    inputs: list[TrackedStorage | None]
    results: list[TrackedStorage | None]
    call: Call | None
    workspace: int = 0


class OpRunner:
    """Runs ops without a plan. meter: of a GPU's allocator; None on the CPU."""

    def __init__(
        self, residency: Residency, storages: TrackedStorages, room: Room, values: Values, meter: device.Meter | None
    ) -> None:
        self._residency, self._storages, self._room = residency, storages, room
        self._values, self._meter = values, meter
        self._workspaces: dict[Any, int] = {}  # by op, the most so far

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], execute: Callable[[], Any]) -> Ran:
        """Run an op by `execute`, with its operands restored and room made for its results."""
        residency, room, values, device_type = self._residency, self._room, self._values, self._residency.device_type
        victims, roots = room.victims, room.roots
        victims.op_begins()
        if residency.streams is not None:
            residency.streams.number()
        given = (*args, *kwargs.values())
        operands = on_device(device_type, given)
        if not operands and elsewhere(device_type, given):  # a data set in the host's memory, say: not to be copied
            return Ran(execute(), [], [], None)
        inputs = [self._storages.of_tensor(tensor) for tensor in operands]
        storages = list(dict.fromkeys(t for t in inputs if t is not None))
        named = effects.arguments(func, args, kwargs)
        changed = [named[name] for name in effects.mutated(func, named)]
        tensors = on_device(device_type, changed)
        mutated = list(dict.fromkeys(t for one in tensors if (t := self._storages.of_tensor(one)) is not None))
        protected = set(storages)
        if room.limit is not None:
            roots.look()
            if changes_only(func):
                roots.before_change(mutated, partial(values.copy, protected=protected))
        ends = {(t, t.version) for t in mutated if roots.overwritten((t, t.version))}
        victims.end(ends)
        if residency.evicted:
            wanted = [(t, t.version) for t in storages] + victims.hang_on_ends()
            values.materialize(wanted, room.make, victims.now)
            protected.update(tracked for tracked, _ in wanted)
        roots.lose(ends)
        if room.limit is not None:
            room.make(self._need(func, args, kwargs, room.limit) + self._workspaces.get(func, 0), protected)
            roots.read((t, t.version) for t in storages)
        call = self._call(func, args, kwargs, inputs, mutated)
        if residency.streams is not None:
            residency.streams.use(storages)
        before = self._meter.start() if self._meter is not None else 0
        out = values.attempt(func, execute, protected, call.drawn)
        if any((storage := t.ref()) is not None and storage.nbytes() != t.nbytes for t in storages):
            refused.resized()
        results = [self._storages.of_tensor(tensor) for tensor in on_device(device_type, (out,))]
        workspace = self._workspace(func, before)
        created = [t for t in dict.fromkeys(results) if t is not None and t not in storages and not t.touched]
        if residency.streams is not None:
            residency.streams.made(created)
        # An op that makes something changes what it did not make on the side, as batch norm does its statistics.
        versions = [t for t in mutated if not created or t.version in t.makers]
        for tracked in versions:
            tracked.change()
        lost = {t for t, _ in ends}  # of which the next version cannot be made again: it is a root, as parameters are
        if is_blank(func) or sized_by_data(func, operands):  # made again, it may be other data, or of another size
            lost.update(created)
        writes = [(t, t.version) for t in (*versions, *created) if t not in lost]
        call.has_made(results, writes, cost=sum(tracked.nbytes for tracked in (*storages, *created)))
        for tracked in (*storages, *created):
            tracked.use(victims.now)
        self._storages.add_made(created)
        return Ran(out, inputs, results, call if writes else None, workspace)

    def _workspace(self, func: Any, before: int) -> int:
        """The bytes that an op took and gave back while it ran. before: allocated when it began."""
        if self._meter is None:
            return 0
        found = max(self._meter.peak() - max(before, self._meter.now()), 0)
        self._workspaces[func] = max(self._workspaces.get(func, 0), found)
        return found

    def _call(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: list[TrackedStorage | None],
        mutated: list[TrackedStorage],
    ) -> Call:
        numbers = iter(inputs)

        def spec(tensor: torch.Tensor) -> Any:
            here = tensor.device.type == self._residency.device_type and tensor.layout is torch.strided
            return Spec(next(numbers), tensor) if here else tensor.detach().clone()

        return Call(
            func,
            change(args, torch.Tensor, spec),
            change(kwargs, torch.Tensor, spec),
            reads=[(t, t.version) for t in dict.fromkeys(inputs) if t is not None],
            mutates=mutated,
            drawn=drawn.before(func, args, kwargs, self._residency.device_type),
            gradients=torch.is_grad_enabled(),
        )

    def _need(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int) -> int:
        """Bytes of an op's results; 0 for views, and where there is ample room whatever they take."""
        if changes_only(func):
            return 0
        given = on_device(self._residency.device_type, (*args, *kwargs.values()))
        if self._room.allocated + 16 * sum(t.untyped_storage().nbytes() for t in given) + (1 << 20) < limit / 2:
            return 0
        return result_bytes(func, args, kwargs, self._residency.device_type, given)
