"""The life cycle of one step: what is put in place before it, and taken away after it.

Steps that dispatch the same ops on the same sizes have one signature (signatures.py): it is expected, or the first ops
tell it.

PyTorch's optimizers update their tensors in parts where need be, so that no op of theirs reads all of them at once. One
that works on lists (`foreach`, `fused`) makes a list for each device and type, and updates one after the other. It
takes shorter lists as well. Each tensor is updated by itself, so its bits do not depend on the lists.
"""

from collections.abc import Callable, Iterator, Sequence
from ctypes import c_int64
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from coopsim.live import device
from coopsim.live.arena.cap import ArenaCap
from coopsim.live.arena.library import Arena
from coopsim.live.cap import AllocatorCap, CachingCap
from coopsim.live.device import LiveLedger
from coopsim.live.errors import LiveError
from coopsim.live.following import Following, Recording
from coopsim.live.ladder import StepTook
from coopsim.live.mode import Exits, StepMode
from coopsim.live.observer import Observer
from coopsim.live.op_log import StepRecorder
from coopsim.live.op_runner import OpRunner
from coopsim.live.planning import Planning
from coopsim.live.residency import Residency
from coopsim.live.room import Room
from coopsim.live.signatures import Signature
from coopsim.live.spilled import Spilled
from coopsim.live.state import Context, Spilling, State
from coopsim.live.streams import Streams
from coopsim.live.tracked import TrackedStorages
from coopsim.live.values import Values
from coopsim.record.observe import effects, torch_private

_SPILLS = {"cuda"}  #: types of devices whose values may go to the host: to the CPU's there is nothing to gain
_SMALL = 1 / 20_000  #: of the budget; smaller storages go to the host last
_LISTS = 2  #: that an optimizer makes at a time, of temporaries, each as large as the one that it updates
#: What PyTorch's optimizers call to sort their tensors by device and type.
_GROUPED = "torch.optim.Optimizer._group_tensors_by_device_and_dtype"
IN_PARTS = "in_parts"  #: in the header of a step's trace, whether its lists were short
_PARTS = 16  #: of a list; its bytes divided by this are the most in a part, unless one tensor has more


class Parts:
    """Between `watch` and `forget`, the lists of all optimizers of this process are short.

    without_plan: steps of a session that have no plan update in parts, as one had no room for whole lists.
    """

    def __init__(self) -> None:
        self.without_plan = False
        self._whole: Callable[..., Any] | None = None

    def watch(self, needed: Callable[[int], bool] = lambda _nbytes: True) -> None:
        """Replace what makes the lists. needed: whether they have to be short, given the bytes of one."""
        self._needed = needed
        self._whole = torch_private.get(_GROUPED)
        torch_private.replace(_GROUPED, staticmethod(self._in_parts))

    def forget(self) -> None:
        """Restore it; does nothing if it is not replaced."""
        if self._whole is not None:
            torch_private.replace(_GROUPED, staticmethod(self._whole))
            self._whole = None

    def _in_parts(self, lists: list[list[Any]], with_indices: bool = False) -> dict[Any, Any]:
        assert self._whole is not None
        whole: dict[Any, Any] = self._whole(lists, with_indices)
        if not self._needed(sum(t.nbytes for group, _ in whole.values() for t in group[0] if t is not None)):
            return whole
        found: dict[Any, Any] = {}
        for key, (group, indices) in whole.items():
            for a, b in _cut([tensor.nbytes for tensor in group[0]]):
                found[_Key(key)] = [one[a:b] for one in group], indices[a:b]
        return found


class _Key(tuple[torch.device, torch.dtype]):
    """A device and a type, of one part among several."""

    __hash__, __eq__ = object.__hash__, object.__eq__


def _cut(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """The parts, from one number of a tensor up to another."""
    begin, nbytes, most = 0, 0, sum(sizes) // _PARTS
    for i, size in enumerate(sizes):
        if i > begin and nbytes + size > most:
            yield begin, i
            begin, nbytes = i, 0
        nbytes += size
    yield begin, len(sizes)


@dataclass(frozen=True)
class Start:
    """How a step begins. expected: the signature that it is assumed to be of; None if its first ops have to tell.

    candidates: signatures that it may turn out to be of, then; empty: it is recorded. signatures: all that are known.
    hard: fail rather than exceed the budget. trims: the step before had no plan, and this one may have: give back the
    memory that the allocator caches, whose blocks lie as that step needed them. lays_out: lay out anew what steps have
    scattered (Planning.lays_out).
    """

    expected: Signature | None
    candidates: Sequence[Signature]
    signatures: Sequence[Signature]
    hard: bool
    trims: bool
    lays_out: bool


class Step:
    """A step in which ops are followed by plan, recorded, or run without a plan, from `begin` to `end`.

    It caps the allocator, watches the device's tensors and enters the step's dispatch mode, in this order; `end` undoes
    that in reverse. device_type: "cuda" or "cpu". lists, streams: of optimizers and of a GPU, for all of a session.
    """

    def __init__(
        self,
        device_type: str,
        ledger: LiveLedger,
        planning: Planning,
        arena: Arena | None,
        start: Start,
        observer: Observer | None,
        lists: Parts,
        streams: Streams | None,
    ) -> None:
        self._streams = streams
        self._device_type, self._ledger, self._planning, self._arena = device_type, ledger, planning, arena
        self._lists, self._start, self._observer = lists, start, observer
        self._failed = False
        self._cap: AllocatorCap | None = None
        self.entered = False  #: whether there is something of it
        self.in_parts = False  #: whether optimizers have updated their tensors in parts
        self._exits = Exits()  # each undoes what is put in place after it was added

    def begin(self) -> None:
        """Put everything in place, and begin in the first state; `end` has to follow, also if this raises.

        Raises LiveError for a program that cannot be followed.
        """
        device_type, ledger, planning, start = self._device_type, self._ledger, self._planning, self._start
        exits = self._exits
        self._cap = self._new_cap(exits)
        noted = effects.on(device_type)
        noted.__enter__()
        exits.add(lambda: noted.__exit__(None, None, None))
        ledger.count_peak()
        if planning.limit is not None:
            exits.add(self._lists.forget)
            self._lists.watch(self._decide_parts)
            if device_type == "cuda" and self._arena is None:
                ooms = device.ooms()
                exits.add(partial(setattr, ooms, "raises", False))
                ooms.raises = True
        if self._streams is not None:
            self._streams.begin_step()
        residency = Residency(device_type, ledger, planning.offloading.area, self._streams)
        storages = TrackedStorages(torch.device("cuda", torch.cuda.current_device()) if device_type == "cuda" else None)
        if self._cap is not None:
            self._cap.set()
        #: Of a GPU's allocator, and of what is there once the cap is set.
        self.meter = device.Meter() if device_type == "cuda" else None
        if self.meter is not None:
            exits.add(self.meter.stop)
        spilled = Spilled(residency, storages, _SMALL * (planning.limit or 0), planning.offloading.most_spilled)
        room = Room(
            residency,
            spilled,
            planning.limit,
            self.meter,
            self._cap,
            hard=start.hard,
            spills=device_type in _SPILLS,
            ooms=self._ooms(),
        )
        values = Values(room)
        runner = OpRunner(values, storages, self.meter)
        self._context = Context(
            residency, storages, room, values, runner, start.signatures, self._observer, planning.placed
        )
        self._mode = mode = StepMode(self._context, self._first_state(start))
        self.entered = True
        exits.add(mode.reraise, mode.unhook, lambda: mode.state.end(learn=not self._failed))
        exits.add(lambda: mode.bring_all_back(failed=self._failed), lambda: mode.state.conclude(failed=self._failed))
        exits.add(mode.undo, lambda: mode.state.stop())
        if start.lays_out and isinstance(self._cap, CachingCap):
            spilled.lay_out(self._cap.empty, values.allocate)
        mode.enter()
        mode.state.begin()

    def end(self, error: BaseException | None) -> None:
        """End the step. error: what was raised in it."""
        self._failed = error is not None
        if self._cap is not None and self._failed:
            self._cap.end()  # first of all: no cap may stand in the way of what brings evicted values back
        self._exits.close()

    def bring_back(self) -> bool:
        """Bring back what found no room when the step ended. Whether there was something; raises what that raises."""
        if not self.entered or not self.residency.left:
            return False
        try:
            self._mode.bring_all_back(failed=False)
        finally:
            if self._cap is not None:
                self._cap.end()
        return True

    def forget(self) -> None:
        """Leave the step in a forked process, without touching the device; nothing is restored or learned."""
        self._mode.forget()

    @property
    def state(self) -> State:
        """The state that the step is in, and was in last when it is over."""
        return self._mode.state

    @property
    def failure(self) -> LiveError | None:
        """The LiveError that was raised in the step; None if there was none."""
        return self._mode.failure

    @property
    def residency(self) -> Residency:
        """Where the step's values are, and how many were evicted, run again and copied."""
        return self._context.residency

    @property
    def took(self) -> StepTook:
        """What it took of the device; of reserved bytes only those above the budget count."""
        allocated, reserved = self.peaks()
        left = self.state.left if isinstance(self.state, Spilling) else None
        calls, retries = (self.meter.calls(), self.meter.retries()) if self.meter is not None else (0, 0)
        nbytes = max(allocated, reserved) if self._context.room.over_cap else allocated
        return StepTook(nbytes, left is not None and left.ran_out, calls, retries)

    def peaks(self) -> tuple[int, int]:
        """The largest numbers of bytes allocated and reserved in the step so far; on the CPU, 0 reserved."""
        return self.meter.most() if self.meter is not None else (self._ledger.peak_bytes, 0)

    def _decide_parts(self, nbytes: int) -> bool:
        """Decide whether optimizers update lists of so many bytes in parts: as the plan has it, or if there is no room.

        Without a plan, note it for this step and, once there was no room, for all later ones.
        """
        lists, state = self._lists, self.state
        if state.planned and state.signature is not None:
            return bool(state.signature.trace.header.get(IN_PARTS))
        if not self._context.room.holds_all_and(_LISTS * nbytes):
            lists.without_plan = True
        self.in_parts = lists.without_plan
        return self.in_parts

    def _new_cap(self, exits: Exits) -> AllocatorCap | None:
        placed, limit = self._planning.placed, self._planning.limit
        cap: AllocatorCap | None = None
        if self._arena is not None:
            exits.add(self._arena.end)
        if self._arena is not None and placed is not None:
            self._arena.begin()
            placed.begin()
            cap = ArenaCap(self._arena)
        elif self._device_type == "cuda" and limit is not None:
            cap = CachingCap(limit, trims=self._start.trims)
        if cap is not None:
            exits.add(cap.end)
        return cap

    def _ooms(self) -> c_int64:
        if self._arena is not None:
            return self._arena.ooms
        return device.ooms().count if self._device_type == "cuda" else c_int64()

    def _first_state(self, start: Start) -> State:
        context, first = self._context, next(iter(start.candidates), None)
        if start.expected is not None:
            return (Following if start.expected.plan else Spilling)(context, start.expected)
        recorder = StepRecorder(
            self._ledger,
            self._device_type,
            context.runner,
            self._arena,
            context.placed.expect(first) if context.placed is not None and first is not None and first.plan else None,
        )
        return Recording(context, recorder, start.candidates)
