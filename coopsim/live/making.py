"""The order in which values are made again that have no memory, so that it takes little memory.

A value is a version of a storage's bytes. A call is an op that ran, with its arguments (tracked.py).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from coopsim.live.errors import DoesNotFit
from coopsim.live.residency import Residency
from coopsim.live.room import Room
from coopsim.live.tracked import Call, TrackedStorage, Value

#: Makes room for so many bytes, without evicting these tracked storages.
MakeRoom = Callable[[int, Collection[TrackedStorage]], None]


class RunsAgain(Protocol):
    """What finds and runs the calls of a step (values.Values)."""

    residency: Residency
    room: Room

    def is_missing(self, value: Value, room: MakeRoom, protected: Collection[TrackedStorage]) -> bool:
        """Whether a value has no memory, and is not on the host: from there it is fetched at once."""

    def maker(self, value: Value) -> Call:
        """The call that makes a value. LiveError if there is none."""

    def run(
        self,
        call: Call,
        targets: Sequence[Value],
        takeovers: Collection[Value],
        protected: Collection[TrackedStorage] = (),
    ) -> None:
        """Run a call again."""


@dataclass(slots=True)
class _Goal:
    """A value that is to be made, None for all that is wanted; what it is made from; and what was made of that."""

    value: Value | None
    reads: list[Value]
    made: set[Value] = field(default_factory=set)


class Making:
    """Makes values that have no memory.

    What a call reads is made in the order that needs least memory: first what needs most beyond its own bytes. Where
    memory runs short, what a later call reads, or the caller wants, may be evicted, and is made again when its turn
    comes. Where it still does, what is held for a second use goes, first what costs least per byte to make again.
    """

    def __init__(
        self, values: RunsAgain, wanted: list[Value], room: MakeRoom, now: int, protected: Collection[TrackedStorage]
    ) -> None:
        self._values, self._residency, self._room, self._now = values, values.residency, room, now
        self._wanted, self._protected = wanted, protected
        self._protects_reads = True  # of the calls on the stack, until memory runs short
        self._to_run: set[Call] = set()
        self._needs: dict[Value, int] = {}  # the most bytes that it takes to make each value, from what has memory
        self._uses: Counter[Value] = Counter()  # by calls that are to run
        self._held: set[Value] = set()
        self._stack = [_Goal(None, wanted)]  # each is made for the one before

    def run(self) -> None:
        """Make them. Raises what `Values.materialize` raises."""
        while self._stack:
            try:
                self._go_on()
            except (DoesNotFit, torch.OutOfMemoryError):
                if not self.can_give_up:
                    raise
                self._give_up()

    def end(self) -> None:
        """Let go of what is held."""
        self._stack.clear()
        self._let_go(self._held)

    @property
    def can_give_up(self) -> bool:
        """Whether there is something yet to give up for room: the protection of operands, or a value that is held."""
        return self._protects_reads or bool(self._not_needed_now())

    def _go_on(self) -> None:
        """Run a call, or turn to another that has to run before."""
        top = self._stack[-1]
        keep = {*self._protected, *(tracked for one in self._stack for tracked, _ in one.made)}
        if self._protects_reads:
            keep.update(tracked for one in self._stack for tracked, _ in one.reads)
        missing = [read for read in top.reads if self._values.is_missing(read, self._room, keep)]
        if missing:
            self._plan(missing, keep)
            value = max(missing, key=lambda read: self._needs[read] - read[0].nbytes)
            self._stack.append(_Goal(value, self._values.maker(value).reads))
            return
        if top.value is not None:
            self._run(self._values.maker(top.value), top.value, keep.union(tracked for tracked, _ in top.reads))
            self._stack[-2].made.add(top.value)
        self._stack.pop()
        self._let_go({value for value in self._held.intersection(top.reads) if self._uses[value] <= 0})

    def _plan(self, values: Iterable[Value], keep: Collection[TrackedStorage]) -> None:
        """Take note of the calls that make these values, and of those that make what they read, if that is missing."""
        stack = [(value, False) for value in values]
        while stack:
            value, ready = stack.pop()
            call = self._values.maker(value)
            if ready:
                self._needs |= dict.fromkeys(call.writes, self._need(call))
            elif call not in self._to_run:
                self._to_run.add(call)
                self._uses.update(call.reads)
                stack.append((value, True))
                stack += [(read, False) for read in call.reads if self._values.is_missing(read, self._room, keep)]

    def _need(self, call: Call) -> int:
        """The most bytes that it takes to make what a call reads, in the best order, and then to run it."""
        missing = [read for read in call.reads if self._residency.memory_of(read) is None]
        reads = sorted(((self._needs.get(v, 0), v[0].nbytes) for v in missing), key=lambda need: need[1] - need[0])
        there = most = 0
        for need, nbytes in reads:
            most, there = max(most, there + need), there + nbytes
        return max(most, there + _size(call))

    def _run(self, call: Call, value: Value, protected: Collection[TrackedStorage]) -> None:
        uses, memory_of = self._uses, self._residency.memory_of
        targets = [
            w
            for w in call.writes
            if w == value or (memory_of(w) is None and (uses[w] > 0 or (w[0].evicted and w[0].version == w[1])))
        ]
        free = self._held.difference(*(one.made for one in self._stack[:-1]))
        takeovers = [(t, v) for t, v in call.writes if (t, v - 1) in free and uses[t, v - 1] <= 1]
        self._room(_size(call), protected)
        self._values.run(call, targets, takeovers, protected)
        self._to_run.discard(call)
        uses.subtract(call.reads)
        self._held.update(w for w in (*targets, *takeovers) if w[1] in w[0].held and w not in self._wanted)
        for tracked in {*(tracked for tracked, _ in call.reads), *(tracked for tracked, _ in targets)}:
            tracked.use(self._now)  # so it is not what is evicted first

    def _not_needed_now(self) -> set[Value]:
        """What is held for later calls alone."""
        return self._held.difference(self._stack[-1].reads, *(one.made for one in self._stack))

    def _give_up(self) -> None:
        """Let operands be evicted from now on; or, if they may, let go of what costs least per byte to make again."""
        if self._protects_reads:
            self._protects_reads = False
            return
        cost = self._values.room.victims.cost
        value = min(self._not_needed_now(), key=lambda one: cost(one) / one[0].nbytes)
        self._let_go([value])
        if self._uses[value] > 0:
            self._plan([value], ())

    def _let_go(self, values: Iterable[Value]) -> None:
        """Let go of those of these that were made for nothing on the stack."""
        found = set(values).difference(*(one.made for one in self._stack))
        for tracked, version in found:
            tracked.held.pop(version, None)
        self._held -= found


def _size(call: Call) -> int:
    read = {tracked for tracked, _ in call.reads}
    changed = sum(tracked.nbytes for tracked in call.mutates)
    return changed + sum(tracked.nbytes for tracked in call.results if tracked is not None and tracked not in read)
