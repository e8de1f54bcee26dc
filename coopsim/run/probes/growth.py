"""What a script keeps from step to step: does its memory grow, by how much per step, and what holds it?

A storage that outlives the step after its own is *kept*. A program whose memory is stationary keeps what it makes in
its first step (optimizer state, gradients), and later no more than it drops. Memory grows if nearly every step adds to
what is allocated at its end, unless only what the last step made is larger, as with ever longer inputs; but what it
made of a smaller tensor of the step before grows, too. Where the ends of steps go up and down, the least of several
must grow, by what is kept. What memory grows by is told apart by its maker: the op and the module that made it. The
line comes from one step whose ops are looked at one by one, once memory is seen to grow.
"""

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from coopsim.base.types import GRANULE
from coopsim.record.observe.effects import tensors
from coopsim.record.observe.storages import Storage
from coopsim.run.probes import places
from coopsim.run.probes.holders import Holders
from coopsim.run.probes.peaks import PeakProbe
from coopsim.run.probes.probe import Probe
from coopsim.run.process import ProcessReport
from coopsim.run.records_memory import GrowingStorages, Growth, Holder

_FIRST = 3  #: the step with whose end later ones are compared: lazily made state is there by then
_LEAST, _LEAST_AT_END = 6, 4  #: steps before there is a verdict; when memory has run out
_MOSTLY = 0.8  #: the part of the steps that must have added memory
_LOOKS = 3  #: steps whose ops are looked at, at most
_NAMED = 4  #: groups that are named
_WINDOWS, _WIDTH = 6, 4  #: in so many windows, of at least so many steps, the least must grow

_Maker = tuple[str, str]


class GrowthProbe(Probe):
    """Follows the ends of steps. `recorder` sees the program's ops and has the account of its storages.

    `peaks` knows how many bytes PyTorch's allocator has in use at the end of a step.
    """

    name = "growth"

    def __init__(self, recorder: Any, peaks: PeakProbe) -> None:
        self._peaks = peaks
        self._recorder, self._ledger = recorder, recorder.ledger
        self._ends: list[int] = []  # the newest serial at the end of each step
        self._allocated: list[int] = []  # bytes, at the end of each step
        self._first: Counter[_Maker] = Counter()  # bytes by maker at the end of step _FIRST
        self._places: dict[int, str] = {}
        self._makers: dict[_Maker, Counter[str]] = {}  # of the steps that were looked at: bytes by line
        self._fresh = 0  # bytes that step _FIRST made, at its end
        self._larger = 0  # how many more the last step made, at the last census
        self._kept = 0  # bytes that steps from _FIRST to the one before it made, at the last census
        self._adds = False  # whether a step made a tensor of a smaller one that the step before had made
        self._looks = 0
        self._looking: Callable[[], None] | None = None  # ends the look at a step
        self._next_census = 0
        self._found: Growth | None = None
        self._least = _LEAST  #: steps for a verdict
        self._holders = Holders(self._ledger)
        self._graphs: dict[str, Holder] = {}  # that were longer at the last look than at the one before
        self._longer: tuple[Holder, ...] = ()  # and at that one, too

    def step_ended(self, _steps: int) -> None:
        self._look_no_more()
        self._ends.append(self._ledger.newest)
        self._allocated.append(self._peaks.allocated)
        n = len(self._ends)
        if n == _FIRST:
            there = self._ledger.alive()
            self._first, self._fresh = _by_maker(there), self._made(there, n, n)
        if n <= _FIRST:
            return
        if not self._grows(n):
            if n & (n - 1) == 0:  # ever more rarely: all that the program refers to is visited
                self._look_at_graphs()
        elif n >= self._next_census:
            self._next_census = n + max(1, n // 4)
            self._found = self._census(n, ended=True)
            self._look()

    def ran_out(self, _device: int, _asked: int) -> None:
        """Find out for the report by what memory has grown; to be called when it runs out, within a step."""
        n, self._least = len(self._ends), _LEAST_AT_END
        if n > _FIRST and self._grows(n, least=_LEAST_AT_END):
            self._found = self._census(n, ended=False)

    def report(self, found: ProcessReport) -> None:
        found.growth = self.grown()

    def grown(self) -> Growth | None:
        """Return what grew; None if memory does not grow.

        None, too, if there were fewer than six steps, or four before memory ran out: too few to tell.
        """
        n = len(self._ends)
        self._look_no_more()
        found = self._found
        if found is None or not self._grows(n, least=self._least) or self._only_larger(n):
            return Growth(_FIRST, n, 0, (), self._longer) if self._longer else None
        return replace(found, last=n, bytes_per_step=self._per_step(n))

    def _look_at_graphs(self) -> None:
        """Autograd graphs can grow on the host alone: nodes that have given back what they saved."""
        before = set(self._graphs)
        self._graphs = {holder.name: holder for holder in self._holders.look() if holder.nodes}
        self._longer = tuple(holder for name, holder in self._graphs.items() if name in before)

    def _grows(self, n: int, *, least: int = _FIRST) -> bool:
        """Whether nearly every step from _FIRST to n ended with more than the one before, or the least of several."""
        return n >= least and (self._is_steady(n) or self._least_grows_by(n) is not None)

    def _is_steady(self, n: int) -> bool:
        ends = self._allocated[_FIRST - 1 : n]
        more = sum(later > earlier for earlier, later in itertools.pairwise(ends))
        return ends[-1] > ends[0] and more >= _MOSTLY * (len(ends) - 1)

    def _least_grows_by(self, n: int) -> float | None:
        """By how many bytes per step the least in windows of steps grows; None unless it does from each to the next."""
        size = (n - _FIRST) // _WINDOWS
        if size < _WIDTH:
            return None
        begins = range(n - size * _WINDOWS, n, size)
        least = [min(self._allocated[i : i + size]) for i in begins]
        if any(later <= earlier for earlier, later in itertools.pairwise(least)):
            return None
        return (least[-1] - least[0]) / (size * (_WINDOWS - 1))

    def _only_larger(self, n: int) -> bool:
        """Whether memory grows only as later steps make more than earlier ones, and adds to nothing."""
        if not self._is_steady(n):
            return 2 * self._kept < self._per_step(n) * (n - _FIRST)
        known = self._looks > 0 or n < _LEAST
        return known and not self._adds and 2 * self._larger >= self._allocated[n - 1] - self._allocated[_FIRST - 1]

    def _made(self, there: list[Storage], first: int, last: int) -> int:
        """The bytes of what steps `first` to `last`, numbered from 1, have made of what is there."""
        after, to = self._ends[first - 2], self._ends[last - 1]
        return sum(-(-s.nbytes // GRANULE) * GRANULE for s in there if after < s.serial <= to)

    def _per_step(self, n: int) -> int:
        if self._is_steady(n):
            return (self._allocated[n - 1] - self._allocated[_FIRST - 1]) // max(n - _FIRST, 1)
        return int(self._least_grows_by(n) or 0)

    def _census(self, n: int, *, ended: bool) -> Growth:
        """What is there now that was not at the end of step _FIRST, by maker. ended: now is the end of step n."""
        steps = max(n - _FIRST, 1)
        there = self._ledger.alive()
        if ended:
            self._larger = self._made(there, n, n) - self._fresh
            self._kept = self._made(there, _FIRST, n - 1)
        more = _by_maker(there)
        more.subtract(self._first)
        kept = {s.serial for s in there if self._ends[1] < s.serial <= self._ends[-2]}
        lines: dict[_Maker, Counter[str]] = {}
        for storage in there:
            if storage.serial in self._places and storage.serial in kept:
                lines.setdefault(_maker(storage), Counter())[self._places[storage.serial]] += storage.nbytes
        held = []
        for maker, nbytes in sorted(more.items(), key=lambda item: (-item[1], item[0]))[:_NAMED]:
            if nbytes // steps:
                seen = lines.get(maker) or self._makers.get(maker) or Counter({"": 0})
                held.append(GrowingStorages(*maker, seen.most_common(1)[0][0], nbytes // steps))
        return Growth(_FIRST, n, self._per_step(n), tuple(held), self._holders.look(kept))

    # -- the lines of one step's ops ---------------------------------------------------------------------------------

    def _look(self) -> None:
        if self._looks >= _LOOKS:
            return
        self._looks += 1
        before = self._recorder.seen

        def both(func: Any, args: Any, kwargs: Any, out: Any, made: bool) -> None:
            if before is not None:
                before(func, args, kwargs, out, made)
            self._op(args, kwargs, out, made)

        def end() -> None:
            if self._recorder.seen is both:
                self._recorder.seen = before

        self._recorder.seen, self._looking = both, end

    def _look_no_more(self) -> None:
        if self._looking is not None:
            self._looking()
        self._looking = None

    def _op(self, args: Any, kwargs: Any, out: Any, made: bool) -> None:
        if not made:
            return
        for tensor in tensors(out):
            storage = self._ledger.of(tensor) if tensor.is_cuda else None
            if storage is not None and storage.serial > self._ends[-1]:
                place = self._places[storage.serial] = places.here()
                self._makers.setdefault(self._recorder.running, Counter())[place] += storage.nbytes
                self._adds = self._adds or any(
                    self._is_last(t, storage.nbytes) for t in tensors([*args, *kwargs.values()])
                )

    def _is_last(self, tensor: torch.Tensor, nbytes: int) -> bool:
        """Whether the step before made a tensor, with fewer bytes."""
        storage = self._ledger.of(tensor) if tensor.is_cuda else None
        return storage is not None and self._ends[-2] < storage.serial <= self._ends[-1] and storage.nbytes < nbytes


def _maker(storage: Storage) -> _Maker:
    return storage.maker or ("", "")


def _by_maker(storages: list[Storage]) -> Counter[_Maker]:
    found: Counter[_Maker] = Counter()
    for storage in storages:
        found[_maker(storage)] += storage.nbytes
    return found
