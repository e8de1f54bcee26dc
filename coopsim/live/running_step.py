"""The life cycle of one step: what is put in place before it, and taken away after it.

Steps that dispatch the same ops on the same sizes are of one kind (kinds.py): it is expected, or the first ops tell it.
"""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from coopsim.live import device
from coopsim.live.arena.cap import ArenaCap
from coopsim.live.arena.library import Arena
from coopsim.live.cap import AllocatorCap, CachingCap
from coopsim.live.kinds import Kind
from coopsim.live.known_kinds import KnownKinds
from coopsim.live.ledger import LiveLedger
from coopsim.live.observer import Observer
from coopsim.live.on_demand import OnDemand
from coopsim.live.parts import IN_PARTS, Parts
from coopsim.live.planning import Planning
from coopsim.live.sent import Sent
from coopsim.live.step import Step
from coopsim.live.tape import TapeRecorder
from coopsim.live.values import Values
from coopsim.observe import effects

_LISTS = 2  #: that an optimizer makes beside those that it has, at a time


class RunningStep:
    """A context in which the ops of one step are followed by plan, recorded, or made room for on demand.

    On entry it caps the allocator, watches the device's tensors and enters the step's dispatch mode, in this order; on
    exit it undoes that in reverse.

    device_kind: "cuda" or "cpu". candidates: kinds that the step may turn out to be of, unless one is expected; empty:
    it is recorded. sent: what the step before has left on the host. hard: fail rather than exceed the budget.
    """

    def __init__(
        self,
        device_kind: str,
        ledger: LiveLedger,
        planning: Planning,
        arena: Arena | None,
        known: KnownKinds,
        candidates: list[Kind],
        observer: Observer | None,
        sent: Sent,
        *,
        hard: bool,
    ) -> None:
        self._kind, self._ledger, self._planning, self._arena = device_kind, ledger, planning, arena
        self._known, self._candidates, self._observer, self._hard = known, candidates, observer, hard
        self._sent = sent
        self._exits = ExitStack()
        self._cap: AllocatorCap | None = None
        self._failed = False
        self.in_parts = False  #: whether optimizers have updated their tensors in parts
        self.meter: device.Meter | None = None  #: of a GPU's allocator
        self.step: Step

    def __enter__(self) -> Self:
        with ExitStack() as exits:
            self._cap = self._new_cap(exits)
            exits.enter_context(effects.on(self._kind))
            self._ledger.peak_bytes = self._ledger.live_bytes
            if self._planning.in_parts or self._planning.limit is not None:
                parts = Parts(self._needs_parts)
                exits.callback(parts.forget)
                parts.watch()
            values = Values(self._kind, self._ledger, self._planning.area, self._sent)
            values.placed = self._planning.placed
            if self._cap is not None:
                self._cap.set()
            self.meter = device.Meter() if self._kind == "cuda" else None  # of what is there once the cap is set
            sends = self._planning.sends
            on_demand = OnDemand(values, self._planning.limit, self.meter, self._cap, hard=self._hard, sends=sends)
            on_demand.adopt(values.gone.values())
            self.step = self._new_step(values, on_demand)
            exits.callback(self._end_recorder)
            exits.enter_context(self.step)
            self._exits = exits.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._failed = error is not None
        if self._cap is not None and self._failed:
            self._cap.end()  # first of all: no cap may stand in the way of what brings evicted values back
        self._exits.__exit__(kind, error, where)

    def record(self) -> None:
        """Start to record the step, unless its kind is expected and it is followed from its start.

        Raises LiveError for a program that cannot be followed.
        """
        recorder = self.step.recorder
        if recorder is not None:
            recorder.begin()
            if not self._candidates:
                recorder.commit()

    def peaks(self) -> tuple[int, int]:
        """The largest numbers of bytes allocated and reserved in the step so far; on the CPU, 0 reserved."""
        return self.meter.most() if self.meter is not None else (self._ledger.peak_bytes, 0)

    def _needs_parts(self, nbytes: int) -> bool:
        """Whether optimizers update lists of so many bytes in parts: as the plan has it, or where there is no room."""
        planning, step = self._planning, self.step
        if step.planned and step.kind is not None:
            return planning.in_parts or bool(step.kind.trace.header.get(IN_PARTS))
        if not step.on_demand.has_room(_LISTS * nbytes):
            planning.no_room_for_lists = True
        self.in_parts = planning.in_parts or planning.no_room_for_lists
        return self.in_parts

    def _new_cap(self, exits: ExitStack) -> AllocatorCap | None:
        placed, limit = self._planning.placed, self._planning.limit
        cap: AllocatorCap | None = None
        if self._arena is not None:
            exits.callback(self._arena.end)
        if self._arena is not None and placed is not None:
            self._arena.begin()
            placed.begin()
            cap = ArenaCap(self._arena)
        elif self._kind == "cuda" and limit is not None:
            cap = CachingCap(limit)
        if cap is not None:
            exits.callback(cap.end)
        return cap

    def _new_step(self, values: Values, on_demand: OnDemand) -> Step:
        expected, kinds = self._known.expected, self._known.kinds
        if expected is not None:
            return Step(values, on_demand, None, expected, [], kinds, self._observer)
        model = device.cost_model(self._kind)
        recorder = TapeRecorder(device.find(self._kind), model, self._ledger, self._kind, on_demand, self._arena)
        if values.placed is not None and self._candidates and self._candidates[0].plan is not None:
            recorder.state = values.placed.expect(self._candidates[0].plan)
        return Step(values, on_demand, recorder, None, self._candidates, kinds, self._observer)

    def _end_recorder(self) -> None:
        if self.step.recorder is not None:  # else it has ended when the kind of step was known
            self.step.recorder.end(learn=not self._failed)
