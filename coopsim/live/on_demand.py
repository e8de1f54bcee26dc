"""Evicts values when memory runs short in steps without a plan: greedily, by least cost per byte and staleness.

A value is a version of a storage's bytes, and a cell a storage of the step with its versions (cells.py).
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from coopsim.live import device, need, refused
from coopsim.live.arena.hole import Ways
from coopsim.live.cap import AllocatorCap
from coopsim.live.cells import Call, Cell, Spec, change, elsewhere, on_device
from coopsim.live.errors import DoesNotFit
from coopsim.live.roots import Roots
from coopsim.live.sender import Sender
from coopsim.live.values import Values
from coopsim.live.victims import Victims
from coopsim.observe import effects
from coopsim.text import human

_SMALL = 1 / 20_000  #: of the budget; smaller storages are not evicted
_FOR_ROOM = 1 / 8  #: of the budget, what a step evicts because of fragmentation before its cap is raised
_TOLERANCE = 64  #: a hard budget may be exceeded by the budget divided by this, for pages of the allocator
_SPARE = 16  #: the budget divided by this is left to PyTorch's caching allocator, because it fragments
_PATIENCE = 100  #: recomputations by which a step may exceed the number of its own ops so far


class OnDemand:
    """Runs the ops of a step one by one, and keeps the calls of all, so that whatever they made can be evicted.

    To keep a call is to keep the op and its arguments, by which it can be run again (cells.Call).

    limit: the budget in bytes; None while there is none. meter: of a GPU's allocator; None on the CPU. cap: on that
    allocator. hard: raise DoesNotFit rather than exceed the limit. sends: bytes of values that may be on the host
    rather than be evicted. hole: frees address ranges in an arena; None without one. workspace: bytes that the latest
    op took and gave back while it ran.
    """

    def __init__(
        self,
        values: Values,
        limit: int | None,
        meter: device.Meter | None,
        cap: AllocatorCap | None,
        *,
        hard: bool,
        sends: int = 0,
    ) -> None:
        self.values, self.limit, self._meter, self._cap, self._hard = values, limit, meter, cap, hard
        values.short = self._short
        if cap is not None and cap.holds:
            values.roomy = self._roomy
        small = _SMALL * (limit or 0)
        self._victims = Victims(values, small)
        self._sender = Sender(values.offloaded, self._victims, self.cell, small, sends)
        self._roots = Roots(values, self._victims, small)
        ways = Ways(values, self._victims, self._evict, self._sending, self._roots.release)
        self.hole = cap.hole(ways) if cap is not None else None
        self.by_plan = False  #: whether the step follows a plan, which it can leave
        self.undecided = False  #: whether it may follow one yet, which knows of nothing that is sent
        self.over_cap = False  #: whether the allocator had to take more than the budget
        self._for_room = 0  # bytes evicted because the allocator could not use what was free
        self.workspace = 0
        self._workspaces: dict[Any, int] = {}  # by op, the most so far
        self._cells: dict[int, Cell] = {}
        self._kept: list[torch.UntypedStorage] = []
        self.last: tuple[list[Cell | None], list[Cell | None], Call | None] = [], [], None

    def adopt(self, cells: Iterable[Cell]) -> None:
        """Take over the cells of a plan, which the step has followed until now."""
        for cell in cells:
            self._victims.cells.append(cell)
            if cell.ref() is not None:
                self._cells[cell.key] = cell
                if cell.version in cell.makers:
                    self._victims.made.append(cell)
                if self.limit is not None:
                    self._roots.read(value for call in cell.makers.values() for value in call.reads)

    def end(self) -> None:
        """Let go of what was kept alive for recomputations, as the step is over."""
        self._roots.end()
        self._kept.clear()

    @property
    def cells(self) -> list[Cell]:
        """All cells of the step so far, including those whose storages are gone."""
        return self._victims.cells

    def cell(self, tensor: torch.Tensor) -> Cell | None:
        """The cell of a tensor's storage, made at first sight; None if it has no bytes."""
        storage = tensor.untyped_storage()
        return self.cell_of(storage) if storage.nbytes() else None

    def cell_of(self, storage: torch.UntypedStorage) -> Cell:
        """The cell of a storage with bytes, made at first sight."""
        cell = self.known(storage)
        if cell is None:
            cell = self._cells[storage._cdata] = Cell(storage)
            self._victims.cells.append(cell)
        return cell

    def known(self, storage: torch.UntypedStorage) -> Cell | None:
        """The cell of a storage; None if it has none yet."""
        cell = self._cells.get(storage._cdata)
        return cell if cell is not None and cell.ref() is storage else None

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], execute: Callable[[], Any]) -> Any:
        """Run an op by `execute`, with its operands restored and room made for its results; return its result."""
        values = self.values
        self._victims.now += 1
        given = (*args, *kwargs.values())
        operands = on_device(values.kind, given)
        if not operands and elsewhere(values.kind, given):  # a data set in the host's memory, say: not to be copied
            self.last, self.workspace = ([], [], None), 0
            return execute()
        inputs = [self.cell(tensor) for tensor in operands]
        cells = list(dict.fromkeys(c for c in inputs if c is not None))
        named = effects.arguments(func, args, kwargs)
        changed = [named[name] for name in effects.mutated(func, named)]
        mutated = list(dict.fromkeys(c for t in on_device(values.kind, changed) if (c := self.cell(t)) is not None))
        leave = set(cells)
        if self.limit is not None:
            self._roots.look()
            if changes_only(func):
                self._roots.before_change(mutated, leave)
        self._victims.ends = {(c, c.version) for c in mutated if self._roots.overwritten((c, c.version))}
        if values.gone:
            wanted = [(c, c.version) for c in cells] + self._victims.hang_on_ends()
            values.bring(wanted, self.room, self._victims.now)
            leave.update(cell for cell, _ in wanted)
        self._roots.lose(self._victims.ends)
        if self.limit is not None:
            self.room(self._need(func, args, kwargs) + self._workspaces.get(func, 0), leave)
            self._roots.read((c, c.version) for c in cells)
        call = self._call(func, named, args, kwargs, inputs, mutated)
        if values.streams is not None:
            values.streams.use(cells)
        before = self._meter.start() if self._meter is not None else 0
        out = self.values.attempt(func, execute, leave)
        if any((storage := c.ref()) is not None and storage.nbytes() != c.nbytes for c in cells):
            refused.resized()
        results = [self.cell(tensor) for tensor in on_device(values.kind, (out,))]
        if self._meter is not None:
            self._note_workspace(func, before)
        created = [c for c in dict.fromkeys(results) if c is not None and c not in cells and not c.touched]
        if values.streams is not None:
            values.streams.made(created)
        # An op that makes something changes what it did not make on the side, as batch norm does its statistics.
        versions = [c for c in mutated if not created or c.version in c.makers]
        for cell in versions:
            cell.version += 1
        call.results = results
        call.writes = [(cell, cell.version) for cell in (*versions, *created)]
        call.cost = sum(cell.nbytes for cell in (*cells, *created))
        for cell, version in call.writes:
            cell.makers[version] = call
        for cell in (*cells, *created):
            cell.touched = self._victims.now
        self._victims.made += created
        self.last = inputs, results, call if call.writes else None
        return out

    def _note_workspace(self, func: Any, before: int) -> None:
        assert self._meter is not None
        self.workspace = max(self._meter.peak() - max(before, self._meter.now()), 0)
        self._workspaces[func] = max(self._workspaces.get(func, 0), self.workspace)

    def _allocated(self) -> int:
        return self._meter.now() if self._meter is not None else self.values.ledger.live_bytes

    def _short(self, leave: Collection[Cell], tries: int) -> bool:
        """Make room after an op ran out of memory: evict, or raise the cap. False if neither can be done.

        A hard budget is exceeded only if nothing is left to evict, and the step has left its plan. tries: how often
        the op has run out of memory before.
        """
        if self.hole is not None:
            return self.hole.made(leave, tries) or self._higher()
        if self._roots.release(leave) or self._send(leave):
            return True
        limit = self.limit or 0
        if self._hard and self._higher(limit + limit // _TOLERANCE):
            return True
        victim = self._victims.best(leave) if self._hard or self._for_room < limit * _FOR_ROOM else None
        if victim is None and not (self._hard and self.by_plan) and self._higher():
            return True
        victim = victim or self._victims.best(leave)
        if victim is None:
            return self._end_above()
        self._for_room += victim.nbytes
        self._evict(victim)
        return True

    def _end_above(self) -> bool:
        """Let what was sent come back above the budget, as the step is over. False if there is no cap in the way."""
        if not self.values.ending or self._cap is None or not self._cap.holds:
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
    def _roomy(self) -> Iterator[None]:
        assert self._cap is not None
        assert self.limit is not None
        self._cap.lift()
        try:
            yield
        finally:
            self._cap.set()
        self.over_cap |= self._cap.exceeded(self.limit)

    def _call(
        self,
        func: Any,
        named: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: list[Cell | None],
        mutated: list[Cell],
    ) -> Call:
        numbers = iter(inputs)

        def spec(tensor: torch.Tensor) -> Any:
            here = tensor.device.type == self.values.kind and tensor.layout is torch.strided
            return Spec(next(numbers), tensor) if here else tensor.detach().clone()

        call = Call(func, change(args, torch.Tensor, spec), change(kwargs, torch.Tensor, spec))
        call.reads = [(c, c.version) for c in dict.fromkeys(inputs) if c is not None]
        call.mutates, call.gradients = mutated, torch.is_grad_enabled()
        if effects.is_random(func, named):
            call.generator = generator(self.values.kind, named)
            call.state = call.generator.get_state()
        return call

    def _need(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Bytes of an op's results; 0 for views, and where there is ample room whatever they take."""
        assert self.limit is not None
        if changes_only(func):
            return 0
        given = on_device(self.values.kind, (*args, *kwargs.values()))
        if self._allocated() + 16 * sum(t.untyped_storage().nbytes() for t in given) + (1 << 20) < self.limit / 2:
            return 0
        return need.of(func, args, kwargs, self.values.kind, given)

    def has_room(self, nbytes: int) -> bool:
        """Whether so many bytes fit in the budget beside all that is there, with something to spare."""
        return self.limit is None or self._allocated() + nbytes <= self.limit - self.limit // _SPARE

    def room(self, nbytes: int, leave: Collection[Cell]) -> None:
        """Evict until `nbytes` more fit in the budget, with something to spare; cells in `leave` are not evicted.

        Does nothing while there is no budget. If they cannot fit, raises DoesNotFit if the limit is hard, else returns.
        """
        if self.limit is None:
            return
        over = self._allocated() + nbytes - self.limit
        fragments = self._meter is not None and (self._cap is None or self._cap.fragments)
        missing = over + (self.limit // _SPARE if fragments else 0)
        if missing > 0 and self.values.recomputes > self._victims.now + _PATIENCE:
            if self._hard and over > 0:
                raise DoesNotFit(
                    f"evicting on demand in a budget of {human(self.limit)} runs more ops again than the step has; "
                    "no plan is known yet"
                )
            return
        while missing > 0:
            if freed := self._roots.release(leave) or self._send(leave):
                missing -= freed
                over -= freed
                continue
            victim = self._victims.best(leave)
            if victim is None and (not self._hard or over <= 0):
                return
            if victim is None:
                raise DoesNotFit(
                    f"an op needs {human(nbytes)} more, and of the budget of {human(self.limit)} "
                    f"{human(max(self.limit - self._allocated(), 0))} are left with nothing more to evict"
                )
            self._evict(victim)
            missing -= victim.nbytes
            over -= victim.nbytes

    def _send(self, leave: Collection[Cell]) -> int:
        """Send something to the host instead of evicting it, where that is allowed; return its bytes, or 0."""
        sender = self._sending()
        return sender.send(leave) if sender is not None else 0

    def _sending(self) -> Sender | None:
        """What sends; None where nothing may be sent now. Not in a planned step, whose plan has its own copies."""
        return None if self.by_plan or self.undecided or self.values.ending else self._sender

    def _evict(self, victim: Cell) -> None:
        """Evict a cell, and keep alive what it is recomputed from in the end, which no op of the step makes."""
        self._kept += [
            storage
            for root in self._victims.roots(victim)
            if not self._roots.has(root) and (storage := self.values.memory_of(root)) is not None
        ]
        self.values.evict((victim, victim.version))


def changes_only(func: Any) -> bool:
    """Whether an op makes nothing: it changes its operands, or gives views of them."""
    return all(r.alias_info is not None for r in func._schema.returns)


def generator(kind: str, named: dict[str, Any]) -> torch.Generator:
    """The generator that an op draws its random numbers from: its argument `generator`, or the device's default.

    kind: "cuda" (the current GPU) or "cpu". named: the op's arguments by name.
    """
    given = named.get("generator")
    if given is not None:
        found: torch.Generator = given
    elif kind == "cuda":
        found = torch.cuda.default_generators[torch.cuda.current_device()]
    else:
        found = torch.default_generator
    return found
