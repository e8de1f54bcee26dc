"""What a plan does before an op, what is left to do of actions that a step has skipped, and where copies lie.

Knows no torch. Values are versions of the trace's storages.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from coopsim.base import types
from coopsim.simulate.packing.fit import fit, height
from coopsim.simulate.packing.items import Items
from coopsim.study.validate.values import Value

_ALIGNMENT = 512  #: bytes, of a copy in the host's area
_RUNS = (types.Action.COMPUTE, types.Action.RECOMPUTE)
_NO_USE = (types.Action.FETCH, types.Action.DISCARD)

ScheduleRow = tuple[int, ...]  #: as Schedule.rows gives them


class Kind(IntEnum):
    """What is done to a value. The numbers are the observer's (table.h), which has 2 for Recompute."""

    EVICT = 0  #: free its memory; the program still refers to it
    DROP = 1  #: let go of it; only we hold it
    OFFLOAD = 3  #: begin to copy it to the host, to the area's bytes from `at` on
    EVICT_OFFLOADED = 4  #: wait until it is on the host, and free its memory
    FETCH = 5  #: allocate memory for it, as it is on the host only, and begin to copy it there
    ARRIVE = 6  #: wait until it has been fetched, and hand its memory to the program's storage


@dataclass(frozen=True, slots=True)
class Action:
    """What a plan does to a value before an op."""

    kind: Kind
    value: Value
    at: int = 0


@dataclass(slots=True)
class Recompute:
    """Run an op again for `targets`. `takeovers` are versions that take over the memory of the version before."""

    op: int
    targets: tuple[Value, ...]
    takeovers: list[Value] = field(default_factory=list)

    @property
    def makes(self) -> tuple[Value, ...]:
        """All values that are kept of its results: `targets`, then `takeovers`."""
        return (*self.targets, *self.takeovers)


class Skipped:
    """The actions of a plan that a step has skipped, as it began without the plan.

    last: by value, what was to be done to it last; None: to make or to hold it. offloads: copies to the host, by value.
    """

    def __init__(self) -> None:
        self.last: dict[Value, Kind | None] = {}
        self.offloads: dict[Value, Action] = {}

    def note(self, action: Action | Recompute) -> None:
        """Take note of a skipped action."""
        if isinstance(action, Recompute):
            self.hold(action.makes)
        elif action.kind is Kind.OFFLOAD:
            self.offloads[action.value] = action
        elif action.kind is not Kind.ARRIVE:
            self.last[action.value] = action.kind

    def hold(self, values: Iterable[Value]) -> None:
        """Take note of values that were to be made or held."""
        self.last.update(dict.fromkeys(values))

    def values(self, kind: Kind | None) -> list[Value]:
        """The values to which this was to be done last."""
        return [value for value, last in self.last.items() if last is kind]


@dataclass
class _Copy:
    """A copy on the host, by numbers of rows: it begins at `begins` and is not needed from `until` on.

    leaves: evictions of the value while the copy is there; back: the fetch after the latest of them, -1 if there was
    none. open: the host has it.
    """

    value: Value
    nbytes: int
    begins: int
    leaves: list[int] = field(default_factory=list)
    back: int = -1
    until: int = -1
    open: bool = True


@dataclass(frozen=True)
class CopiesOfSchedule:
    """Which rows of a schedule begin, end and use copies.

    offloads: by row of an `offload`, where in the host's area the copy lies; copies from which nothing is fetched are
    left out. leaves: rows of an `evict` whose value stays on the host. arrives: by row, the values that were fetched
    and are first used there. nbytes: of the area.
    """

    offloads: dict[int, int]
    leaves: set[int]
    arrives: dict[int, list[Value]]
    nbytes: int


def copies_of(rows: Sequence[ScheduleRow], reads: Sequence[Sequence[Value]]) -> CopiesOfSchedule:
    """The copies of a schedule of one step. reads: the values that each op reads."""
    found: list[_Copy] = []
    now: dict[Value, _Copy] = {}
    coming: dict[Value, _Copy] = {}
    arrives: dict[int, list[Value]] = {}
    for i, (action, _, op, storage, version, _, nbytes, *_) in enumerate(rows):
        value = storage, version
        used = reads[op] if action in _RUNS else () if action in _NO_USE else (value,)
        for one in (v for v in used if v in coming):
            arrives.setdefault(i, []).append(one)
            coming.pop(one).until = i
        if action == types.Action.OFFLOAD:
            now[value] = _Copy(value, nbytes, i)
            found.append(now[value])
        elif action == types.Action.EVICT and value in now:
            now[value].leaves.append(i)
            now[value].back = -1
        elif action == types.Action.FETCH:
            coming[value], now[value].back = now[value], i
        elif action == types.Action.DISCARD and value in now:
            _close(now.pop(value))
    end = len(rows)
    for copy in coming.values():
        arrives.setdefault(end, []).append(copy.value)
        copy.until = end
    useful = [copy for copy in found if copy.leaves]
    for copy in useful:
        copy.until = end if copy.open and copy.back < 0 else copy.until
    offsets, nbytes = _places(useful)
    offloads = {copy.begins: offset for copy, offset in zip(useful, offsets, strict=True)}
    return CopiesOfSchedule(offloads, {i for copy in useful for i in copy.leaves}, arrives, nbytes)


def _close(copy: _Copy) -> None:
    """The host has it no more. What left and was not fetched is not needed again: it is as if merely evicted."""
    copy.open = False
    if copy.leaves and copy.back < max(copy.leaves):
        copy.leaves.pop()


def _places(copies: list[_Copy]) -> tuple[list[int], int]:
    """Offsets in the host's area, and its bytes: larger copies first, each where it fits best."""
    items = Items.of(
        [_aligned(copy.nbytes) for copy in copies],
        [copy.begins for copy in copies],
        [max(copy.until, copy.begins + 1) for copy in copies],
    )
    plans = [fit(items, order, best=True) for order in _orders(items)] if copies else []
    best = min(plans, key=lambda offset: height(items, offset), default=np.zeros(0, np.int64))
    return best.tolist(), height(items, best)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _orders(items: Items) -> Iterator[np.ndarray]:
    yield np.argsort(-items.bytes, kind="stable")
    yield np.argsort(-items.bytes * (items.end - items.start), kind="stable")
    yield np.argsort(items.start, kind="stable")
