"""Run a schedule: the ops of a recorded step, recomputations included, in one block of memory, at its addresses.

The block is a tensor of bytes. Every value is a view of it at the address that the schedule gave it, and what the
schedule drops is not there any more: an op whose input is missing fails here as it would on a machine with no more
memory. Two things take memory and time besides, and are counted apart. An op writes its results where PyTorch's
allocator puts them, and they are copied to their addresses. And temporaries of an op come from PyTorch's allocator.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from coopsim.base.types import Action, CoopsimError
from coopsim.study.validate.values import TraceValues, Value
from coopsim.trace.schedule import GIVES_BACK, Schedule
from experiments.gpu.program import Call, Spec, StepProgram, as_bytes, map_values

POISON = 0xA5  #: what memory holds that nobody should read, where that is asked for


class Meter(Protocol):
    """Is told where a run has got to: before an op's inputs are made ready, when it starts, when it has run, and when
    its results are in their places."""

    def mark(self, op: int, part: int) -> None:
        """`part`: 0 to 3, as above."""

    def round_over(self) -> None:
        """The next op is the first of another iteration."""


@dataclass
class Run:
    """One run of an op: where its new values go, and which take over the place of the version before."""

    op: int
    again: bool
    targets: dict[Value, int] = field(default_factory=dict)
    takeovers: list[Value] = field(default_factory=list)


@dataclass
class Place:
    """A value that is there from the start takes its place."""

    value: Value
    address: int


@dataclass
class Drop:
    """A value goes."""

    value: Value
    address: int
    nbytes: int


@dataclass
class HandOn:
    """An iteration is over: these addresses now hold these values."""

    holds: dict[int, Value]


@dataclass
class RoundEnd:
    """The next iteration begins."""


Event = Run | Place | Drop | HandOn | RoundEnd


def events(schedule: Schedule) -> list[Event]:
    """What the schedule's rows mean, in order. CoopsimError if it has no addresses."""
    found: list[Event] = []
    targets: dict[Value, int] = {}
    at_step = 0
    for action, step, op, storage, version, address, nbytes, _, _ in schedule.rows():
        value = storage, version
        if step != at_step:
            at_step = step
            found.append(RoundEnd())
        match Action(action):
            case Action.COMPUTE | Action.RECOMPUTE:
                found.append(Run(op, action == Action.RECOMPUTE, targets))
                targets = {}
            case Action.ALLOC if address < 0:
                raise CoopsimError("the schedule has no addresses, so that it cannot be executed")
            case Action.ALLOC if op < 0:
                found.append(Place(value, address))
            case Action.ALLOC if storage >= 0:
                targets[value] = address
            case Action.MOVE if op >= 0:
                last = found[-1]
                assert isinstance(last, Run)
                last.takeovers.append(value)
            case Action.MOVE:
                last = found[-1] if found else None
                if not isinstance(last, HandOn):
                    found.append(last := HandOn({}))
                last.holds[address] = value
            case kind if kind in GIVES_BACK and storage >= 0:
                found.append(Drop(value, address, nbytes))
            case Action.REFUSE:
                raise CoopsimError("a schedule of the caching allocator has no arena to run in")
    return found


class Machine:
    """Runs schedules of one program in a block of `nbytes` on its device.

    poison: overwrite what is dropped, so that reading it shows. watch: storages whose bytes are kept when the op that
    creates them has run first in an iteration (`watched`, a list for each). `iterations`: after a run without a
    meter, for each iteration by storage of the start its bytes when the iteration is over, on the host.
    `largest_result_bytes`: of one op, before its copy.
    """

    def __init__(
        self,
        program: StepProgram,
        nbytes: int,
        device: torch.device,
        generator: torch.Generator,
        *,
        poison: bool = False,
        watch: tuple[int, ...] = (),
    ) -> None:
        self.program = program
        self.block = torch.empty(nbytes, dtype=torch.uint8, device=device)
        self.iterations: list[dict[int, torch.Tensor]] = []
        self.watched: dict[int, list[torch.Tensor]] = {s: [] for s in watch}
        self.largest_result_bytes = 0
        self._generator, self._poison = generator, poison
        self._values = TraceValues(program.trace)
        self._bytes = program.trace.bytes.tolist()
        self._mutates = program.trace.mutates.rows()
        self._creates = program.trace.creates.rows()
        self._random = program.trace.random.tolist()
        self._address: dict[Value, int] = {}
        self._states: dict[int, torch.Tensor] = {}
        self._views: dict[tuple[Spec, int], torch.Tensor] = {}

    def run(self, happenings: list[Event], meter: Meter | None = None) -> None:
        """Run from the start of the recorded step. CoopsimError if a value is not where an op needs it."""
        self._address.clear()
        self.iterations.clear()
        for kept in self.watched.values():
            kept.clear()
        self._generator.set_state(self.program.generator)
        with torch.no_grad():
            for event in happenings:
                match event:
                    case Run():
                        self._run(event, meter)
                    case Drop(value, address, nbytes):
                        self._drop(value, address, nbytes)
                    case Place(value, address):
                        self._put(value, address)
                    case HandOn(holds):
                        gone = {v for v, a in self._address.items() if a in holds}
                        for value in gone:
                            del self._address[value]
                        self._address |= {value: address for address, value in holds.items()}
                    case RoundEnd() if meter is None:
                        self.iterations.append(self._kept())
                    case RoundEnd():
                        meter.round_over()
        if meter is None:
            self.iterations.append(self._kept())

    def _put(self, value: Value, address: int) -> None:
        self._address[value] = address
        data = self.program.initial.get(value[0])
        if data is not None:
            self._piece(address, value[0]).copy_(data)

    def _drop(self, value: Value, address: int, nbytes: int) -> None:
        if self._address.pop(value, None) != address:
            raise CoopsimError(f"the schedule drops s{value[0]}.{value[1]} from an address where it is not")
        if self._poison:
            self.block[address : address + nbytes].fill_(POISON)

    def _run(self, run: Run, meter: Meter | None) -> None:
        op, call = run.op, self.program.calls[run.op]
        mark = meter.mark if meter else _ignore
        mark(op, 0)
        where = self._ready(run)
        args, kwargs = map_values((call.args, call.kwargs), Spec, lambda spec: self._view(spec, where))
        if self._random[op]:
            self._seed(op, again=run.again)
        mark(op, 1)
        out = call.func(*args, **kwargs)
        mark(op, 2)
        if self._random[op] and run.again:
            self._generator.set_state(self._now)
        self._place_results(run, call, out)
        del out
        mark(op, 3)
        for value in run.takeovers:
            before = value[0], value[1] - 1
            self._address[value] = self._address.pop(before)
        for storage in self._creates[op] if not run.again else ():
            if storage in self.watched:
                self.watched[storage].append(self._piece(run.targets[storage, 0], storage).clone())

    def _ready(self, run: Run) -> dict[int, int | torch.Tensor]:
        """By storage of the op's operands: the address at which the op sees it, or a copy of its own."""
        op = run.op
        where: dict[int, int | torch.Tensor] = {}
        made = dict(self._values.writes[op])
        for storage, version in self._values.reads[op]:
            here = self._address.get((storage, version))
            if here is None:
                raise CoopsimError(
                    f"op {op} ({self.program.trace.name[op]}) needs s{storage}.{version}, which is not there"
                )
            where[storage] = here
            if storage not in self._mutates[op]:
                continue
            if storage not in made:  # statistics on the side: they are updated once
                if run.again:
                    where[storage] = self._piece(here, storage).clone()
                continue
            after = storage, made[storage]
            if after in run.targets:
                where[storage] = run.targets[after]
                self._piece(run.targets[after], storage).copy_(self._piece(here, storage))
            elif after not in run.takeovers:  # it is there already; this run is for another result
                where[storage] = self._piece(here, storage).clone()
        self._address |= run.targets
        return where

    def _place_results(self, run: Run, call: Call, out: Any) -> None:
        results = list(_on_device(out, self.block.device))
        if len(results) != len(call.results):
            raise CoopsimError(f"{call.func} gave {len(results)} results, and {len(call.results)} when it was recorded")
        fresh = 0
        placed: set[int] = set()
        for spec, tensor in zip(call.results, results, strict=True):
            if spec.storage not in self._creates[run.op] or spec.storage in placed:
                continue
            data = as_bytes(tensor)
            laid = tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset(), len(data)
            if laid != (spec.shape, spec.stride, spec.offset, self._bytes[spec.storage]):
                raise CoopsimError(f"{call.func} gave a tensor that lies otherwise than when it was recorded")
            placed.add(spec.storage)
            fresh += len(data)
            target = run.targets.get((spec.storage, 0))
            if target is not None:
                self._piece(target, spec.storage).copy_(data)
        self.largest_result_bytes = max(self.largest_result_bytes, fresh)

    def _seed(self, op: int, *, again: bool) -> None:
        """A recomputation draws the numbers that the first run in this iteration drew."""
        self._now = self._generator.get_state()
        if again:
            self._generator.set_state(self._states[op])
        else:
            self._states[op] = self._now

    def _view(self, spec: Spec, where: dict[int, int | torch.Tensor]) -> torch.Tensor:
        if spec.storage < 0:
            return torch.empty_strided(spec.shape, spec.stride, dtype=spec.dtype, device=self.block.device)
        base = where[spec.storage]
        if isinstance(base, torch.Tensor):
            return _lay(base.untyped_storage(), 0, spec, base.device)
        key = spec, base
        if key not in self._views:
            self._views[key] = _lay(self.block.untyped_storage(), base, spec, self.block.device)
        return self._views[key]

    def _piece(self, address: int, storage: int) -> torch.Tensor:
        return self.block[address : address + self._bytes[storage]]

    def _kept(self) -> dict[int, torch.Tensor]:
        """What a step hands to the next."""
        there = {s: address for (s, version), address in self._address.items() if version == 0}
        return {s: self._piece(there[s], s).to("cpu", copy=True) for s in self.program.final if s in there}


def _lay(untyped: Any, address: int, spec: Spec, device: torch.device) -> torch.Tensor:
    start = address // spec.dtype.itemsize + spec.offset
    return torch.empty(0, dtype=spec.dtype, device=device).set_(untyped, start, spec.shape, spec.stride)


def _on_device(value: Any, device: torch.device) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.device.type == device.type:
            yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _on_device(item, device)


def _ignore(_op: int, _part: int) -> None:
    pass
