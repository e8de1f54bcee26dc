"""Chooses what to evict: the value with the least cost of recomputing it, per byte and staleness.

That quotient is its score. Staleness is the number of ops since the value was last used, plus 1. A cost is a sum of
Call.cost: in ns in steps that were recorded, else in bytes. A call is an op that can be run again (tracked.py).
"""

from collections.abc import Collection, Iterable, Iterator

from coopsim.live.residency import Residency, Where
from coopsim.live.tracked import Call, TrackedStorage, TrackedStorages, Value
from coopsim.types import Role

_NEAR = 32  #: calls, within which a value can be recomputed that is evicted at ease
_FAR = 512  #: calls that a score adds up, at most


class Victims:
    """The values of a step that can be evicted, with their scores.

    storages: all of the step. now: the number of ops so far. least_bytes: smaller tracked storages are evicted only to
    free an address range.
    """

    def __init__(self, residency: Residency, storages: TrackedStorages, least_bytes: float) -> None:
        self._residency, self._storages, self._least_bytes = residency, storages, least_bytes
        self.now = 0
        self._ends: set[Value] = set()

    def op_begins(self) -> None:
        """Count the op that runs next."""
        self.now += 1
        self._ends = set()

    def end(self, values: Iterable[Value]) -> None:
        """Take note that the running op overwrites these values, which no call of the step can make."""
        self._ends = set(values)

    def best(self, protected: Collection[TrackedStorage], *, far: bool = True) -> TrackedStorage | None:
        """The tracked storage with the least score, except those in `protected`; None if nothing can be evicted.

        Those that need many calls come last, and only if `far`: what these make on the way takes memory, too, as when
        the gradient of a residual stream is recomputed from the beginning of the forward pass.
        """
        found = list(self._evictable(protected, self._least_bytes))
        near = [
            (tracked, cost) for tracked in found if (cost := self._cost((tracked, tracked.version), _NEAR)) is not None
        ]
        best = self._least(near)
        if best is None and far:
            best = self._least((tracked, self.cost((tracked, tracked.version))) for tracked in found)
        return best

    def _least(self, costs: Iterable[tuple[TrackedStorage, int]]) -> TrackedStorage | None:
        best, least = None, float("inf")
        for tracked, cost in costs:
            score = cost / (tracked.nbytes * (self.now - tracked.touched + 1))
            if score < least and self.can_be_made((tracked, tracked.version)):
                best, least = tracked, score
        return best

    def oldest(self, protected: Collection[TrackedStorage]) -> TrackedStorage | None:
        """The storage that was used longest ago, except those in `protected`, whether or not it can be recomputed."""
        return min(self._evictable(protected, self._least_bytes), key=lambda tracked: tracked.touched, default=None)

    def movable(self, protected: Collection[TrackedStorage]) -> list[TrackedStorage]:
        """All tracked storages that the step has made and may lose, of any size, except those in `protected`."""
        return list(self._evictable(protected, 0))

    def prices(self, protected: Collection[TrackedStorage]) -> dict[TrackedStorage, float]:
        """The cost of recomputing each storage that can be evicted ÷ its staleness, except those in `protected`."""
        found = [tracked for tracked in self.movable(protected) if self.can_be_made((tracked, tracked.version))]
        costs = ((tracked, self.cost((tracked, tracked.version))) for tracked in found)
        return {tracked: cost / (self.now - tracked.touched + 1) for tracked, cost in costs}

    def can_be_made(self, value: Value) -> bool:
        """Whether a value can be recomputed, now and after the running op: its roots are others, and have memory."""
        return all(
            root != value and self._residency.memory_of(root) is not None and root not in self._ends
            for root in self.roots(value)
        )

    def roots(self, value: Value) -> list[Value]:
        """The roots of a value: those that it is recomputed from in the end, which no call of the step makes."""
        found: list[Value] = []
        seen: set[Value] = set()
        stack = [value]
        while stack:
            value = stack.pop()
            if value not in seen:
                seen.add(value)
                call = value[0].makers.get(value[1])
                if call is None:
                    found.append(value)
                else:
                    stack += call.reads
        return found

    def frontier(self, root: Value) -> list[Value] | None:
        """The values with memory that cannot be made again without a root; None if others have to be made from it."""
        lost, found = {root: True}, []
        for tracked in self._storages.all:
            for version, call in tracked.makers.items():
                value = tracked, version
                if self._residency.memory_of(value) is None:
                    if (
                        tracked.evicted
                        and tracked.version == version
                        and tracked.ref() is not None
                        and self._is_lost(value, lost)
                    ):
                        return None
                elif any(self._is_lost(read, lost) for read in call.reads):
                    found.append(value)
        return found

    def _is_lost(self, value: Value, lost: dict[Value, bool]) -> bool:
        """Whether a value has no memory and is made from those that are True in `lost`, where what it finds goes."""
        stack = [value]
        while stack:
            value = stack[-1]
            if value in lost:
                stack.pop()
                continue
            call = value[0].makers.get(value[1])
            there = call is None or self._residency.where(value) is not Where.NOWHERE
            reads = call.reads if call is not None and not there else []
            todo = [read for read in reads if read not in lost]
            stack += todo
            if not todo:
                lost[value] = any(lost[read] for read in reads)
        return lost[value]

    def hang_on_ends(self) -> list[Value]:
        """Evicted values that cannot be recomputed once the running op has overwritten its operands; [] if none."""
        if not self._ends:
            return []
        found = []
        for tracked in self._residency.evicted.values():
            if tracked.ref() is not None and not self._residency.on_host((tracked, tracked.version)):
                seen: set[Value] = set()
                stack: list[Value] = [(tracked, tracked.version)]
                while stack:
                    value = stack.pop()
                    if value in self._ends:
                        found.append((tracked, tracked.version))
                        break
                    if value not in seen and value[1] in value[0].makers:
                        seen.add(value)
                        stack += value[0].makers[value[1]].reads
        return found

    def _evictable(self, protected: Collection[TrackedStorage], small: float) -> Iterator[TrackedStorage]:
        """Tracked storages of at least `small` bytes that may be evicted, provided they can be recomputed."""
        self._storages.forget_freed()
        for tracked in self._storages.made:
            if tracked.evicted or tracked in protected or tracked.nbytes < small or tracked.version in tracked.held:
                continue
            if tracked.version not in tracked.makers:  # a root by now (roots.py)
                continue
            if self._residency.must_stay(tracked):
                continue
            if self._residency.ledger.role(tracked.key) is Role.GRADIENT:
                continue  # it would take the activations of its layer, which may be gone, too
            yield tracked

    def cost(self, value: Value) -> int:
        """The cost of recomputing a value, with the evicted values that it is made from."""
        return self._cost(value, _FAR, most=True) or 0

    def _cost(self, value: Value, calls: int, *, most: bool = False) -> int | None:
        """`cost`, or None if that takes more calls than these; with `most`, the cost of so many."""
        found: dict[Call, None] = {}
        stack = [value]
        while stack:
            value = stack.pop()
            call = value[0].makers.get(value[1])
            if call is not None and call not in found:
                if len(found) == calls:
                    if most:
                        break
                    return None
                found[call] = None
                stack += [read for read in call.reads if self._residency.memory_of(read) is None]
        return sum(call.cost for call in found)
