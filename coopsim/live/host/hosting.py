"""What plans may use of the host's memory, why they do not offload, and where their copies lie.

Knows no torch, until a session begins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from coopsim.base.text import human
from coopsim.base.types import Action, CoopsimError, Lose
from coopsim.cards import link as links
from coopsim.simulate import policies
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.packing.fit import fit, height
from coopsim.simulate.packing.items import Items
from coopsim.simulate.policies import Policy
from coopsim.study.validate.values import Value

if TYPE_CHECKING:
    from coopsim.live.plan import Plan

_ALIGNMENT = 512  #: bytes, of a copy in the host's area
_RUNS = (Action.COMPUTE, Action.RECOMPUTE)

ScheduleRow = tuple[int, ...]  #: as Schedule.rows gives them


@dataclass(frozen=True)
class Hosting:
    """Values may be copied to the host and fetched. CoopsimError for a link that is not known.

    link: a name of `coopsim list links`; "": that of the card for which steps are recorded. memory_bytes: for all
    copies together; None: no limit.
    """

    link: str = ""
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        links.check(self.link, None)

    @property
    def options(self) -> ReplayOptions:
        """Options of the replay of one step."""
        return ReplayOptions(steps=1, link=self.link, host_memory=self.memory_bytes)


def copying(policy: Policy) -> Policy:
    """The policy, as one that may offload as well as recompute."""
    return replace(policy, lose=Lose.EITHER)


def check(policy: Policy | str) -> None:
    """Raise CoopsimError for a policy that makes no plans: copies on demand save no time."""
    policy = policies.find(policy) if isinstance(policy, str) else policy
    if not policy.plans:
        raise CoopsimError(f"policy {policy.name} makes no plans, and only plans offload: take foresight-offline")


class Offloading:
    """What a session may use of the host. area: where what plans offload lies.

    hosting: None: plans do not offload. memory_bytes: for all copies, those of steps without a plan included; None: no
    limit.
    """

    def __init__(self) -> None:
        self.hosting: Hosting | None = None
        self.memory_bytes: int | None = None
        self.run_on("cpu")
        self._why_not = ""
        self._latest: Plan | None = None  # plan that was adopted

    def allow(self, asked: Hosting | None, why_not: str, policy: Policy | str) -> None:
        """Let plans offload, unless `why_not` says why not. CoopsimError if the policy makes no plans."""
        if asked is not None:
            check(policy)
        self.hosting, self._why_not = None if why_not else asked, why_not

    def run_on(self, device_type: str) -> None:
        """Copy from and to devices of this type, "cuda" or "cpu", from now on."""
        from coopsim.live.host.area import HostArea

        self.area = HostArea(device_type)

    @property
    def most_spilled(self) -> int | None:
        """Bytes that a step without a plan may have on the host; None: no limit."""
        return None if self.memory_bytes is None else max(self.memory_bytes - self.area.nbytes, 0)

    def reserve(self, plan: "Plan") -> bool:
        """Reserve the memory that a plan copies to. If that cannot be, no later plan may offload: False."""
        nbytes, most = plan.host_bytes, self.hosting.memory_bytes if self.hosting is not None else 0
        if not nbytes:
            return True
        if self.hosting is None:
            return not self._why_not
        if most is not None and nbytes > most:
            why = f"the copies take {human(nbytes)} as they lie on the host, of {human(most)}"
        else:
            why = self.area.reserve(nbytes)
        if why:
            self.hosting, self._why_not = None, why
        return not why

    def adopt(self, plan: "Plan") -> None:
        """Note that steps of some signature go by this plan from now on."""
        self._latest = plan

    @property
    def why_not(self) -> str:
        """Why the latest plan does not offload, although plans may; "" if it does, and before there is one."""
        plan = self._latest
        if self.hosting is None or plan is None or plan.time is None:
            return self._why_not
        recomputes = plan.time.planned_gpu > plan.time.plain_gpu
        dearer = "recomputing alone is predicted to cost no more" if recomputes else "nothing is evicted"
        return "" if plan.host_bytes else dearer


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
