"""Makes room on the device in a running step: frees what only we hold, evicts, moves blocks, or raises the cap.

What is evicted is chosen greedily, by least cost per byte and staleness.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum, auto

import torch

from coopsim.live import device
from coopsim.live.arena.hole import Ways
from coopsim.live.cap import AllocatorCap
from coopsim.live.errors import DoesNotFit
from coopsim.live.residency import Residency
from coopsim.live.roots import Roots
from coopsim.live.streams import guard
from coopsim.live.tracked import TrackedStorage, TrackedStorages, Value
from coopsim.live.victims import Victims
from coopsim.text import human

_SMALL = 1 / 20_000  #: of the budget; smaller storages are not evicted
_FOR_ROOM = 1 / 8  #: of the budget, what a step evicts because of fragmentation before its cap is raised
_TOLERANCE = 64  #: a hard budget may be exceeded by the budget divided by this, for pages of the allocator
_SPARE = 16  #: the budget divided by this is left to PyTorch's caching allocator, because it fragments
_PATIENCE = 16, 100  #: recomputations: at most so many per op of the step so far, and so many more


class _Phase(Enum):
    """What a step goes by. UNDECIDED: it may follow a plan yet, which knows of nothing that is sent."""

    UNDECIDED = auto()
    BY_PLAN = auto()
    ON_DEMAND = auto()


class Room:
    """Makes room in one step, within a budget.

    limit: the budget in bytes; None while there is none. meter: of a GPU's allocator; None on the CPU. cap: on that
    allocator. hard: raise DoesNotFit rather than exceed the limit. over_cap: whether the allocator had to take more
    than the budget.
    """

    def __init__(
        self,
        residency: Residency,
        storages: TrackedStorages,
        limit: int | None,
        meter: device.Meter | None,
        cap: AllocatorCap | None,
        *,
        hard: bool,
    ) -> None:
        small = _SMALL * (limit or 0)
        self.limit, self._residency, self._meter, self._cap, self._hard = limit, residency, meter, cap, hard
        self.victims = Victims(residency, storages, small)
        self.roots = Roots(residency, self.victims, small)
        ways = Ways(residency, storages, self.victims, self._evict, self.roots.release, lambda: self._planned())
        self._hole = cap.hole(ways) if cap is not None else None  # frees address ranges in an arena
        #: In it, an op may exceed the budget.
        self.roomy: Callable[[], AbstractContextManager[None]] = nullcontext
        if cap is not None and cap.holds:
            self.roomy = self._above
        self._phase, self._ending = _Phase.ON_DEMAND, False
        self._planned: Callable[[], Iterable[TrackedStorage]] = tuple
        self.over_cap = False
        self._for_room = 0  # bytes evicted because the allocator could not use what was free
        self._kept: list[torch.UntypedStorage] = []
        self._held: list[Value] = []  # by a plan that was left, the largest last

    # -- what the step goes by ---------------------------------------------------------------------------------------

    def wait_for_plan(self) -> None:
        """Send nothing until it is known whether the step follows a plan, which would know nothing of it."""
        self._phase = _Phase.UNDECIDED

    def go_by_plan(self, storages: Callable[[], Iterable[TrackedStorage]]) -> None:
        """Send nothing, as the plan has its own copies, and keep to the cap. storages: that may be moved."""
        self._phase, self._planned = _Phase.BY_PLAN, storages

    def go_on_demand(self, held: Iterable[Value] = ()) -> None:
        """Send, evict and raise the cap as need be, as the step goes on without a plan.

        held: by a plan until now, to make others from; where room is short, those that can be made again are let go.
        """
        self._phase, self._planned = _Phase.ON_DEMAND, tuple
        self._held = sorted(held, key=lambda value: value[0].nbytes)

    def end(self) -> None:
        """From now on all that was evicted comes back, as the step is over."""
        self._ending = True

    def let_go(self) -> None:
        """Let go of what was kept alive for recomputations."""
        self.roots.end()
        self._kept.clear()
        self._held.clear()

    # -- room --------------------------------------------------------------------------------------------------------

    @property
    def allocated(self) -> int:
        """Bytes that are allocated now."""
        return self._meter.now() if self._meter is not None else self._residency.ledger.live_bytes

    def has(self, nbytes: int) -> bool:
        """Whether so many bytes fit in the budget beside all that is there, with something to spare."""
        return self.limit is None or self.allocated + nbytes <= self.limit - self.limit // _SPARE

    def make(self, nbytes: int, protected: Collection[TrackedStorage]) -> None:
        """Evict, but none of `protected`, until `nbytes` more fit in the budget, with something to spare.

        Does nothing while there is no budget. If they cannot fit, raises DoesNotFit if the limit is hard, else returns.
        """
        if self.limit is None:
            return
        over = self.allocated + nbytes - self.limit
        fragments = self._meter is not None and (self._cap is None or self._cap.fragments)
        missing = over + (self.limit // _SPARE if fragments else 0)
        if missing > 0 and self._residency.recomputes > _PATIENCE[0] * self.victims.now + _PATIENCE[1]:
            if self._hard:
                raise DoesNotFit(
                    f"evicting on demand in a budget of {human(self.limit)} runs {_PATIENCE[0]} times as many ops "
                    "again as the step has; no plan is known yet"
                )
            return
        while missing > 0:
            if freed := self._give_up(protected):
                missing -= freed
                over -= freed
                continue
            victim = self.victims.best(protected, far=over > 0)
            if victim is None and (not self._hard or over <= 0):
                return
            if victim is None:
                raise DoesNotFit(
                    f"an op needs {human(nbytes)} more, and of the budget of {human(self.limit)} "
                    f"{human(max(self.limit - self.allocated, 0))} are left with nothing more to evict"
                )
            self._evict(victim)
            missing -= victim.nbytes
            over -= victim.nbytes

    def short(self, protected: Collection[TrackedStorage] | None, tries: int, *, above: bool = True) -> bool:
        """Make room after an op ran out of memory: evict, or raise the cap. False if neither can be done.

        A hard budget is exceeded only if nothing is left to evict, and the step has left its plan. By plan nothing is
        evicted, as the plan would not bring it back. protected: as Values.attempt takes it. tries: how often the op has
        run out of memory before. above: the budget may be exceeded, as the caller has nothing to give up.
        """
        if self._hole is not None:
            keeps = self._hard and self._phase is _Phase.BY_PLAN  # beyond the arena only once it has left its plan
            return protected is not None and (self._hole.made(protected, tries) or (not keeps and self._higher()))
        if self._phase is _Phase.BY_PLAN:
            return self._higher(self._tolerated if self._hard else None) or self._end_above()
        if protected is None:
            return False
        if self._give_up(protected):
            return True
        limit = self.limit or 0
        if self._hard and self._higher(self._tolerated):
            return True
        victim = self.victims.best(protected) if self._hard or self._for_room < limit * _FOR_ROOM else None
        if victim is None and above and self._higher():
            return True
        victim = victim or self.victims.best(protected)
        if victim is None:
            return self._end_above()
        self._for_room += victim.nbytes
        self._evict(victim)
        return True

    @property
    def _tolerated(self) -> int:
        """What the allocator may take in a hard budget, for its pages."""
        limit = self.limit or 0
        return limit + limit // _TOLERANCE

    def _end_above(self) -> bool:
        """Let what was sent come back above the budget, as the step is over. False if there is no cap in the way."""
        if not self._ending or self._cap is None or not self._cap.holds:
            return False
        self._cap.lift()
        self.over_cap = True
        return True

    def _higher(self, most: int | None = None) -> bool:
        """Raise the cap, to `most` bytes at most, above the budget. False if that is not possible."""
        if self._cap is None or not self._cap.higher(most):
            return False
        self.over_cap = True
        return True

    @contextmanager
    def _above(self) -> Iterator[None]:
        assert self._cap is not None
        self._cap.lift()
        try:
            yield
        finally:
            self._cap.set()
        self.over_cap |= self.limit is not None and self._cap.exceeded(self.limit)  # None: steps are only recorded

    def _give_up(self, protected: Collection[TrackedStorage]) -> int:
        """Free what only we hold, and return its bytes; 0 if there is nothing."""
        return self.roots.release(protected) or self._release_held(protected)

    def _release_held(self, protected: Collection[TrackedStorage]) -> int:
        """Let go of the largest value that a plan has held and that can be made again; return what that frees, or 0."""
        for value in reversed(self._held):
            tracked, version = value
            if tracked in protected or version not in tracked.held or not self.victims.can_be_made(value):
                continue
            self._held.remove(value)
            storage = tracked.held.pop(version)
            if storage is not tracked.ref():  # else the program has it, and it can be evicted from now on
                for stream in tracked.streams:
                    guard(storage, stream)
                return tracked.nbytes
        return 0

    def _evict(self, victim: TrackedStorage) -> None:
        """Evict a storage, and keep alive what it is recomputed from in the end, which no op of the step makes."""
        self._kept += [
            storage
            for root in self.victims.roots((victim, victim.version))
            if not self.roots.has(root) and (storage := self._residency.memory_of(root)) is not None
        ]
        self._residency.evict((victim, victim.version))
