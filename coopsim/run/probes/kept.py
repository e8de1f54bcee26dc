"""Tensors that a script keeps on the card: that no step reads, as of a loaded file, or outputs of an evaluation.

Unused is what was there when the first forward pass of training began, and what no op of the first two steps has read
or written. Of what is made later, it is a copy of parameters, as of the best epoch's, that a whole step does not read.
Compiled code does not tell what it reads, so a script with compiled graphs has no such tensors here.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from coopsim.base.types import MIB, Role
from coopsim.record.observe import roles
from coopsim.record.observe.effects import tensors
from coopsim.record.observe.storages import Storage
from coopsim.run.probes import holders
from coopsim.run.probes.calls import Calls, Phase
from coopsim.run.probes.compilation import Compilation
from coopsim.run.probes.places import changed_at
from coopsim.run.probes.probe import Probe
from coopsim.run.probes.recorder import ScriptRecorder
from coopsim.run.process import ProcessReport
from coopsim.run.records_memory import Holder, UnusedVariable

_LEAST = 16 * MIB  #: bytes that are worth a line
_PART = 0.01  #: and the part of what is allocated
_STEPS = 2  #: that are looked at
_COPIES = 4  #: how many later steps are looked at for copies, at most
_NAMED = 3
_AT = 6  #: the batch at which is looked: what the batches before the last one made is kept, if it is there
_OF_MODELS = (Role.PARAMETER, Role.BUFFER, Role.OPTIMIZER_STATE)
_BACKS = 3  #: evaluations of fewer batches that are looked at when they are over, at most


class Unused(Probe):
    """Looks for unused tensors at the ends of the first steps, and when memory runs out before these; for copies, at
    the ends of later steps with more in memory.
    """

    name = "unused"

    def __init__(self, recorder: ScriptRecorder, compilation: Compilation, calls: Calls) -> None:
        self._calls = calls
        self._ledger, self._compilation = recorder.ledger, compilation
        self._newest: int | None = None  #: serial, when the first forward pass began
        self._steps = 0
        self._found: list[UnusedVariable] = []
        self.serials: frozenset[int] = frozenset()  #: of the unused storages
        self._ended, self._live = 0, 0  #: the newest serial, and bytes alive, at the end of step _STEPS
        self._newer: int | None = None  #: the newest serial when a look at a later step began
        self._looks, self._next = 0, 0

    def install(self) -> None:
        self._calls.begins.append(self.call_begins)

    def call_begins(self, phase: Phase | None) -> None:
        """Note that a module is called from outside."""
        if self._newest is None and phase == "training":
            self._newest = self._ledger.newest
            self._ledger.note_touched(on=True)

    def step_ended(self, steps: int) -> None:
        self._steps = steps
        if self._newest is None:
            return
        if steps > _STEPS:
            self._look_for_copies()
            return
        self._look()
        if steps == _STEPS:
            self._ledger.note_touched(on=False)
            self._ended, self._live = self._ledger.newest, self._ledger.live_bytes

    def ran_out(self, _device: int, _asked: int) -> None:
        """Look at what is unused so far."""
        if self._newest is not None and self._steps < _STEPS:
            self._look()

    def report(self, found: ProcessReport) -> None:
        """Report the three variables that keep most unused tensors."""
        found.unused = [] if self._compilation.graphs else self._found[:_NAMED]

    def _look(self) -> None:
        storages = self._ledger.untouched()
        self._found, self.serials = [], frozenset()
        if storages is None or self._newest is None or self._compilation.graphs:
            return
        unused = {s.serial: s for s in storages if s.serial <= self._newest}
        if _total(unused.values()) < self._least:
            return
        roles.assign(roles.Objects.now(), self._ledger)
        if not self._steps:  # the step under way has not come to all modules yet
            unused = {serial: s for serial, s in unused.items() if s.role is None}
        self._keep(unused, lambda kept: self._steps >= _STEPS or self._is_a_copy(kept))

    def _look_for_copies(self) -> None:
        """Where a step ends with more in memory, note what the next one reads, and keep the copies that it does not."""
        if self._newer is not None:
            self._ledger.note_touched(on=False)
            between, self._newer = range(self._ended + 1, self._newer + 1), None
            unused = {s.serial: s for s in self._ledger.untouched() or () if s.serial in between}
            if _total(unused.values()) >= self._least:
                roles.assign(roles.Objects.now(), self._ledger)
                self._keep(unused, self._is_a_copy, later=True)
            self._looks += 1
            self._next = self._steps + 2**self._looks
        elif (
            self._steps >= self._next
            and self._looks < _COPIES
            and not self._compilation.graphs
            and self._ledger.live_bytes - self._live >= self._least
        ):
            self._newer = self._ledger.newest
            self._ledger.note_touched(on=True)

    @property
    def _least(self) -> float:
        return max(_LEAST, _PART * self._ledger.live_bytes)

    def _keep(
        self, unused: dict[int, Storage], counts: Callable[[list[Storage]], bool], *, later: bool = False
    ) -> None:
        """Add the variables that hold enough of the storages, and of which `counts` is true."""
        for group in _groups(unused, self._ledger):
            kept = [unused[serial] for serial in group.unused]
            if _total(kept) >= self._least and counts(kept):
                place = changed_at(group.path.file, group.path.name)
                about = group.path.name, group.path.kind, group.path.file, place
                self._found = [one for one in self._found if one.name != group.path.name]
                self._found.append(UnusedVariable(*about, len(kept), _total(kept), later))
                self.serials |= group.unused
        self._found.sort(key=lambda one: (-one.bytes, one.name))

    def _is_a_copy(self, kept: list[Storage]) -> bool:
        """Whether most of it has the sizes of other parameters: of other data, later steps may read some."""
        among = {s.serial for s in kept}
        there = Counter(s.nbytes for s in self._ledger.alive() if s.role is Role.PARAMETER and s.serial not in among)
        alike = Counter(s.nbytes for s in kept) & there
        return 2 * sum(nbytes * n for nbytes, n in alike.items()) >= _total(kept)


@dataclass
class _Group:
    """What a variable refers to: its unused storages, and whether it has others, of which some have no role."""

    path: holders.Path
    unused: set[int]
    others: bool = False
    data: bool = False


def _groups(unused: dict[int, Storage], ledger: Any) -> list[_Group]:
    """The variables with unused storages, each as short as all below it is unused ("teacher", not its weights).

    A container of which the steps read some data is left out: others may read the rest.
    """
    names: dict[str, _Group] = {}
    seen: set[int] = set()
    named = ((path, part) for path, tensor in holders.named_tensors() for part in tensors(tensor))
    for path, tensor in named:
        storage = ledger.of(tensor) if tensor.is_cuda else None
        if storage is None or storage.serial in seen:
            continue
        seen.add(storage.serial)
        group = names.setdefault(path.name, _Group(path, set()))
        if storage.serial in unused:
            group.unused.add(storage.serial)
        else:
            group.others = True
            group.data = group.data or storage.role not in _OF_MODELS
    used = {prefix for name, group in names.items() if group.others for prefix in _prefixes(name)}
    found: dict[str, _Group] = {}
    for name, group in names.items():
        if not group.unused or group.data:
            continue
        short = next((prefix for prefix in _prefixes(name) if prefix not in used), name)
        path = group.path if short == name else holders.Path(short, "", group.path.file)
        found.setdefault(short, _Group(path, set())).unused |= group.unused
    return list(found.values())


def _prefixes(name: str) -> list[str]:
    """Of "model.head.weight": "model", "model.head" and itself."""
    parts = name.split(".")
    return [".".join(parts[: i + 1]) for i in range(len(parts))]


def _total(storages: Iterable[Storage]) -> int:
    return sum(s.nbytes for s in storages)


class KeptOutputs(Probe):
    """Finds the variables that keep something of each batch of an evaluation, such as a list of outputs.

    Looks at the first evaluation that keeps something. `ledger` has the program's storages.
    """

    def __init__(self, ledger: Any, calls: Calls) -> None:
        self._ledger, self._calls = ledger, calls
        self._newest: list[int] = []  #: the newest serials when the calls of this evaluation began
        self._found: list[Holder] = []  #: the variables that hold most
        self._backs = 0

    def install(self) -> None:
        self._calls.begins.append(self.call_begins)

    def call_begins(self, phase: Phase | None) -> None:
        """Note that a module is called from outside."""
        if phase == "evaluation":
            self._newest.append(self._ledger.newest)
            if len(self._newest) == _AT:
                self._look(self._newest[-2])
        elif phase is not None and self._newest:
            if 1 < len(self._newest) < _AT and self._backs < _BACKS:
                self._backs += 1
                self._look(self._newest[-1], _LEAST)
            self._newest.clear()

    def report(self, found: ProcessReport) -> None:
        found.evaluation_keeps = self._found

    def ran_out(self, _device: int, _asked: int) -> None:
        if 2 < len(self._newest) < _AT:
            self._look(self._newest[-2])

    def _look(self, newest: int, least: int = 0) -> None:
        """Find what keeps storages of this evaluation up to the serial `newest`, if they are of `least` bytes."""
        if self._found:
            return
        there = [s for s in self._ledger.alive() if self._newest[0] < s.serial <= newest]
        if there:
            roles.assign(roles.Objects.now(), self._ledger)
            there = [s for s in there if s.role not in _OF_MODELS]  # a model may be made meanwhile
        kept = {s.serial for s in there} if _total(there) >= least else set()
        if kept:
            self._found = [one for one in holders.Holders(self._ledger).look(kept) if one.tensors]
