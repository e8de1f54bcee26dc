"""The copies of a schedule: which of them are of use to a step, and where they lie on the host. Knows no torch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from coopsim.planner.fit import fit, height
from coopsim.planner.items import Items
from coopsim.types import Action
from coopsim.validate.values import Value

_ALIGNMENT = 512  #: bytes, of a copy in the host's area
_RUNS = (Action.COMPUTE, Action.RECOMPUTE)

ScheduleRow = tuple[int, ...]  #: as Schedule.rows gives them


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
    and are first used there. places: where storages lie in the host's area at both ends of the step. nbytes: of the
    area.
    """

    offloads: dict[int, int]
    leaves: set[int]
    arrives: dict[int, list[Value]]
    places: dict[int, int]
    nbytes: int


def copies_of(
    rows: Sequence[ScheduleRow], reads: Sequence[Sequence[Value]], away: Mapping[int, int] | None = None
) -> CopiesOfSchedule:
    """The copies of a schedule of one step. reads: the values that each op reads.

    A copy that is still on the host when the step ends is kept if its value was not fetched since it left. away: bytes
    of the storages that are on the host when a step begins, and when it ends, at places that nothing else gets.
    """
    places, at = {}, 0
    for storage, nbytes in (away or {}).items():
        places[storage], at = at, at + _aligned(nbytes)
    found: list[_Copy] = []
    there = [_Copy((storage, 0), nbytes, -1) for storage, nbytes in (away or {}).items()]
    now: dict[Value, _Copy] = {copy.value: copy for copy in there}
    coming: dict[Value, _Copy] = {}
    arrives: dict[int, list[Value]] = {}
    for i, (action, _, op, storage, version, _, nbytes, *_) in enumerate(rows):
        value = storage, version
        used = reads[op] if action in _RUNS else () if action in (Action.FETCH, Action.DISCARD) else (value,)
        for one in (v for v in used if v in coming):
            arrives.setdefault(i, []).append(one)
            coming.pop(one).until = i
        if action == Action.OFFLOAD:
            now[value] = _Copy(value, nbytes, i)
            found.append(now[value])
        elif action == Action.EVICT and value in now:
            now[value].leaves.append(i)
            now[value].back = -1
        elif action == Action.FETCH:
            coming[value], now[value].back = now[value], i
        elif action == Action.DISCARD and value in now:
            _close(now.pop(value))
    end = len(rows)
    for copy in coming.values():
        arrives.setdefault(end, []).append(copy.value)
        copy.until = end
    last = [copy for copy in found if copy.open and copy.back < 0 and copy.value[0] in places]
    useful = [copy for copy in found if copy.leaves and copy not in last]
    for copy in useful:
        copy.until = end if copy.open and copy.back < 0 else copy.until
    offsets, nbytes = _places(useful)
    offloads = {copy.begins: at + offset for copy, offset in zip(useful, offsets, strict=True)}
    offloads |= {copy.begins: places[copy.value[0]] for copy in last}
    leaves = {i for copy in (*there, *useful, *last) for i in copy.leaves}
    return CopiesOfSchedule(offloads, leaves, arrives, places, at + nbytes)


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
