"""Records a step while it runs: its trace, and its op log, the list of all ops that it dispatches, views included.

A trace has only ops that make or change data. The role of a storage is what it is used for: parameter, gradient, ….
"""

import gc
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch

from coopsim.base.types import Phase, Role
from coopsim.live import device as devices
from coopsim.live import refused
from coopsim.live.arena import library
from coopsim.live.arena.library import BEST_FIT, FIRST_FIT, Arena
from coopsim.live.device import LiveLedger
from coopsim.live.host import timed
from coopsim.live.observer import State
from coopsim.live.op_runner import OpRunner, Ran
from coopsim.live.operands import changes_only, not_on, on_device
from coopsim.live.plan import HOLD, Entry
from coopsim.live.writers import Writers, never_again
from coopsim.record.observe import assemble, roles
from coopsim.record.observe.recorder import Recorder
from coopsim.record.observe.recording import Free, Op, Recording
from coopsim.record.observe.storages import Storage
from coopsim.record.observe.timing import StepTimes
from coopsim.trace import Trace
from coopsim.trace.ragged import Ragged

#: Ops without results on the device that nevertheless read no data.
_LOOKS = {torch.ops.aten.is_pinned.default, torch.ops.aten.sym_size.default}


class StepRecorder(Recorder):
    """A recorder that runs its ops by `runner`, and keeps the op log.

    The step's dispatch mode calls it; it is never entered as a mode itself. arena: logs the requests of each op. state:
    by observer.State, for a plan that the step may follow (Placed.expect).
    """

    active = True
    ledger: LiveLedger

    def __init__(
        self,
        ledger: LiveLedger,
        device_type: str,
        runner: OpRunner,
        arena: Arena | None,
        state: Any = None,
    ) -> None:
        super().__init__(devices.find(device_type), devices.cost_model(device_type))
        self._arena = arena
        self.asked: dict[int, library.Log] = {}  #: requests of each op to the arena, by number of the op
        self.ledger = ledger
        self.op_log: list[Entry] = []
        self.workspaces: dict[int, int] = {}  #: bytes that each op took and gave back while it ran, by number of the op
        self._runner, self._state = runner, state
        self._ran = Ran([], [], None)  # the latest op
        self.writers = Writers(runner.contents)
        self._at, self._times = 0, cast("StepTimes | None", None)  # number of the op that runs, times of all of them
        self.decided = 0  #: entries until data met a parameter, which fixes the batch's sizes; 0: not yet
        self._weights: set[Storage | None] = set()  # made of parameters alone so far
        self.device_type, self._held = device_type, False
        self._hooks: roles.GradientHooks | None = None
        self._collects = gc.isenabled()
        self.recorded: Recording | None = None  #: what was recorded, once the step is over

    # -- a step ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start to record, without roles yet; the caller calls `commit` or `end` before the backward pass."""
        self.where.install()
        self.start()

    def commit(self) -> None:
        """Go on to record the whole step, and find each storage's role. LiveError if the program cannot be followed."""
        if self._state is not None and self._arena is not None:
            self._arena.unfollow()
        gc.collect()  # else what is garbage already would count as needed
        objects = roles.Objects.now()
        refused.objects(objects)
        roles.assign(objects, self.ledger)
        self._started.begin_with(self.ledger.alive())
        self._hooks = roles.GradientHooks(objects.leaves(), self.ledger)
        self.where.know(objects.modules)
        self._times = devices.times(self.device_type)
        gc.disable()  # storages in reference cycles would go at a moment that depends on all else that Python did

    def end(self, *, learn: bool) -> None:
        """Stop recording; `recorded` has the result. learn: the step went to its end, so find the roles left open."""
        self.recorded = self._recording
        self.stop()
        self.where.remove()
        if self._hooks is not None:
            self._hooks.remove()
            if self._collects:
                gc.enable()
        if learn:
            self.writers.end(self.ledger.held)
            roles.assign(roles.Objects.now(), self.ledger)

    @property
    def _started(self) -> Recording:
        assert self._recording is not None
        return self._recording

    # -- an op -------------------------------------------------------------------------------------------------------

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out, self._ran = self._runner.run(func, args, kwargs, lambda: self._timed(func, args, kwargs))
        return out

    def _timed(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._arena is not None:
            self._arena.log()
        start = time.thread_time_ns()
        call = partial(func, *args, **kwargs)
        out = call() if self._times is None else self._times.run(self._at, call)
        self._took = time.thread_time_ns() - start
        self._logged = self._arena.logged() if self._arena is not None else []
        return out

    def _record(self, to: Recording, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        refused.arguments(func, args)
        number, self._took, self._logged = to.dispatched, 0, []
        self._at = number
        if self._arena is not None:  # what an optimizer makes in its first step stays
            optimizer = self.where.phase(mutates_gradient=False) is Phase.OPTIMIZER
            self._arena.zone(FIRST_FIT if optimizer else BEST_FIT)
        operands = on_device(self.device_type, (*args, *kwargs.values()))
        shapes = _shapes_of(operands)
        before = [tensor.untyped_storage() for tensor in operands]  # `set_` gives a tensor another one
        is_view = changes_only(func) and not func._schema.is_mutable
        self.writers.used(operands if not is_view else ())
        out = super()._record(to, func, args, kwargs)
        if to.dispatched != number + 1:
            refused.resized()
        inputs = [self.ledger.of_storage(storage) for storage in before]
        found = on_device(self.device_type, (out,))
        results = [self.ledger.of(tensor) for tensor in found]
        parameters = tuple(s.serial for s in inputs if s is not None and s.role is Role.PARAMETER)
        ran, self._ran = self._ran, Ran([], [], None)
        shapes = shapes, _shapes_of(found), parameters
        entry = Entry(func, shapes, inputs, results, mutable=func._schema.is_mutable, ran=ran)
        if ran.workspace:
            self.workspaces[number] = ran.workspace
        if self._logged:
            self.asked[number] = self._logged
        self.op_log.append(entry)
        if self._state is not None:
            self._state[State.AT] = len(self.op_log)
        op = to.events[-1] if to.events else None
        changed = op.mutates if isinstance(op, Op) and op.number == number else ()
        self.writers.left(zip((*operands, *found), (*inputs, *results), strict=True), changed)
        if isinstance(op, Op) and op.number == number:
            entry.stream = op.stream
            if not _can_run_again(func, op, operands, inputs, results):
                never_again(op)
            self.writers.read_elsewhere(op, not_on(self.device_type, (*args, *kwargs.values())))
            made = zip(found, results, strict=True)
            self.writers.made(op.name, ((tensor.untyped_storage(), s) for tensor, s in made if s in op.creates))
            self.writers.ran(number, zip(before, inputs, strict=True), op.mutates)
            if self.device_type == "cpu":
                op.cost_ns = self._took  # measured, where others are estimated
            self._hold_what_may_be_read(to, op)
        elif inputs and not (found and any(r.alias_info for r in func._schema.returns)) and func not in _LOOKS:
            # It reads data and makes nothing on the device, as .item() does, or a copy into a tensor on the host: a
            # trace has no such ops, but a plan must not take what they read.
            reads = [s for s in dict.fromkeys(inputs) if s is not None]
            entry.stream = self._stream()
            phase = self.where.phase(mutates_gradient=False)
            to.events.append(Op(number, str(func), phase, "", entry.stream, reads, []))
        if not self.decided:
            self._decide(inputs, results)
        return out

    def _decide(self, inputs: list[Storage | None], results: list[Storage | None]) -> None:
        """Note whether data have met a parameter, or what comes of parameters alone, as autocast's copies do."""
        met = {Role.PARAMETER if s in self._weights else s.role for s in inputs if s is not None}
        if met == {Role.PARAMETER}:
            self._weights.update(results)
        elif Role.PARAMETER in met:
            self.decided = len(self.op_log)

    def trace(self) -> Trace:
        """The trace of a step that was recorded to its end.

        The entries of the op log, which named storages and ops as objects, get the trace's numbers for them.
        """
        recording = self.recorded
        assert recording is not None
        header = {
            **self.device.header,
            "model": "live",
            **self.cost_model.header(autocast=self.where.autocast),
            "cost_source": "measured" if self.device_type == "cpu" else self.cost_model.source,
        }
        if self._times is not None:
            header["cost_source"] = self._price(recording, self._times.read())
        self.writers.mark(recording)
        _hold_to_the_end(recording)
        trace = assemble.assemble(recording, [], header)
        ops = [event for event in recording.events if isinstance(event, Op)]
        storages = dict.fromkeys([*recording.start, *(s for op in ops for s in op.creates)])
        number = {storage: i for i, storage in enumerate(storages)}
        op_of = {op.number: i for i, op in enumerate(ops) if op.number >= 0}
        for i, entry in enumerate(self.op_log):
            entry.refer(number, op_of.get(i, -1))
        asked = [self.asked_of(op) for op in ops]
        return replace(
            trace, temporaries=Ragged.of(inside for inside, _ in asked), requests=Ragged.of(codes for _, codes in asked)
        )

    def _price(self, recording: Recording, read: Mapping[int, int]) -> str:
        """Give the recorded ops their costs by times in ns, by number of the op; return what they rest on."""
        ops = {e.number: e for e in recording.events if isinstance(e, Op) and 0 <= e.number < len(self.op_log)}
        prices = {number: op.cost_ns for number, op in ops.items()}
        entries = {number: self.op_log[number] for number in ops}
        costs, source = timed(devices.card(self.device_type), prices, entries, read)
        for number, cost in costs.items():
            ops[number].cost_ns = cost
        return source

    def asked_of(self, op: Op) -> tuple[list[int], list[int]]:
        """The temporaries of an op and its requests in order, as trace.Trace has them; empty where they are unknown."""
        if self._arena is not None and op.number in self.asked:
            return library.of_op(self.asked[op.number], self._arena.stats.base, op.creates)
        workspace = self.workspaces.get(op.number)
        return [workspace] if workspace else [], []

    def _hold_what_may_be_read(self, to: Recording, op: Op) -> None:
        """Before the first update of parameters, enter a pseudo-op that reads what is alive (outputs, losses).

        The program may read these still, and after the update they could not be recomputed: plans must keep them.
        """
        if not self._held and op.phase is Phase.OPTIMIZER and any(s.role is Role.PARAMETER for s in op.mutates):
            self._held = True
            born = to.known.difference(to.start, op.creates)
            alive = [s for s in self.ledger.alive() if s.role is None and s in born]
            to.events.insert(len(to.events) - 1, Op(-1, HOLD, op.phase, "", 0, alive, []))


def _hold_to_the_end(recording: Recording) -> None:
    """Enter pseudo-ops for what the program may read late.

    Values that are alive at the update of parameters are read when they are freed; those left at the end, at the end.
    """
    events: list[Any] = []
    held: set[Storage] = set()
    born: set[Storage] = set()
    for event in recording.events:
        match event:
            case Op(name=name, creates=creates):
                born.update(creates)
                if name == HOLD:  # what an optimizer has made for itself had no role when it was entered
                    event.reads[:] = [s for s in event.reads if s.role is None]
                    held.update(event.reads)
            case Free(storage) if storage in held:
                events.append(Op(-1, HOLD, Phase.OPTIMIZER, "", 0, [storage], []))
        events.append(event)
    alive = [s for s in born if s.alive and s.role is None]
    events.append(Op(-1, HOLD, Phase.OPTIMIZER, "", 0, sorted(alive, key=lambda s: s.serial), []))
    recording.events[:] = events


def _can_run_again(
    func: Any,
    op: Op,
    operands: list[torch.Tensor],
    inputs: list[Storage | None],
    results: list[Storage | None],
) -> bool:
    """Whether a call names all that an op uses (sparse tensors have storages beside), and what it makes is new."""
    named = {*op.reads, *op.mutates} <= set(inputs) and set(op.creates) <= set(results)
    return named and not (op.creates and changes_only(func)) and not any(one.is_quantized for one in operands)


def _shapes_of(tensors: list[torch.Tensor]) -> tuple[Any, ...]:
    """Sizes and type of each tensor, as entries of the op log are compared by."""
    return tuple((*tensor.shape, tensor.dtype) for tensor in tensors)
