"""Evicting when memory runs short, for steps that go by no plan: greedily, what costs least per byte and staleness."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from coopsim.live import device, need, refused
from coopsim.live.cap import AllocatorCap
from coopsim.live.cells import Call, Cell, Spec, change, elsewhere, on_device
from coopsim.live.errors import DoesNotFit
from coopsim.live.values import Values
from coopsim.live.victims import Victims
from coopsim.observe import effects
from coopsim.text import human

_SMALL = 1 / 20_000  #: of the budget: what is smaller is not worth evicting
_FOR_ROOM = 1 / 8  #: of the budget: what is evicted in a step because of fragmentation, before more is taken
_SPARE = 16  #: of the budget, the part that PyTorch's caching allocator is left because it fragments
_PATIENCE = 100  #: recomputations that a step may have above the ops that it has had


class OnDemand:
    """Runs the ops of a step one by one, and knows all of them, so that whatever they made can be evicted.

    limit: bytes, None: there is no budget yet. meter: of a GPU's allocator, None on the CPU. cap: on the allocator.
    hard: rather than to go over the limit, fail. workspace: bytes that the op that ran last took and gave back inside.
    hole: where there is an arena, for requests that find no place in it.
    """

    def __init__(
        self, values: Values, limit: int | None, meter: device.Meter | None, cap: AllocatorCap | None, *, hard: bool
    ) -> None:
        self.values, self.limit, self._meter, self._cap, self._hard = values, limit, meter, cap, hard
        values.short = self._short
        if cap is not None and cap.holds:
            values.roomy = self._roomy
        self._victims = Victims(values, _SMALL * (limit or 0))
        self.hole = cap.hole(values, self._victims, self._evict) if cap is not None else None
        self.over_cap = False  #: the allocator had to take more than the budget
        self._for_room = 0  # bytes evicted because the allocator could not use what was free
        self.workspace = 0
        self._workspaces: dict[Any, int] = {}  # by op, the most so far
        self._cells: dict[int, Cell] = {}
        self._all: list[Cell] = []
        self._kept: list[torch.UntypedStorage] = []
        self.last: tuple[list[Cell | None], list[Cell | None], Call | None] = [], [], None

    def adopt(self, cells: Iterable[Cell]) -> None:
        """These are known already: the step went by a plan until now."""
        for cell in cells:
            self._all.append(cell)
            if cell.ref() is not None:
                self._cells[cell.key] = cell
                if cell.version in cell.makers:
                    self._victims.made.append(cell)

    @property
    def cells(self) -> list[Cell]:
        """All that it has seen, those included that are no more."""
        return self._all

    def cell(self, tensor: torch.Tensor) -> Cell | None:
        """The cell of a tensor's storage; None if it has no bytes."""
        storage = tensor.untyped_storage()
        if not storage.nbytes():
            return None
        cell = self._cells.get(storage._cdata)
        if cell is None or cell.ref() is not storage:
            cell = self._cells[storage._cdata] = Cell(storage)
            self._all.append(cell)
        return cell

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], execute: Callable[[], Any]) -> Any:
        """Run an op: first what it reads is made ready, and room for what it makes."""
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
        self._victims.ends = {(cell, cell.version) for cell in mutated if cell.version not in cell.makers}
        if values.gone:
            wanted = [(c, c.version) for c in cells] + self._victims.hang_on_ends()
            values.bring(wanted, self.room, self._victims.now)
            leave.update(cell for cell, _ in wanted)
        if self.limit is not None:
            self.room(self._need(func, args, kwargs) + self._workspaces.get(func, 0), leave)
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

    def _short(self, leave: Collection[Cell]) -> bool:
        """The device has no room for what the budget has: evict, or let the allocator take more than the budget."""
        if self.hole is not None:
            return self.hole.made(leave) or self._higher()
        victim = self._victims.best(leave) if self._for_room < (self.limit or 0) * _FOR_ROOM else None
        if victim is None and self._higher():
            return True
        victim = victim or self._victims.best(leave)
        if victim is None:
            return False
        self._for_room += victim.nbytes
        self._evict(victim)
        return True

    def _higher(self) -> bool:
        """The allocator may take more than the budget from now on. False: that cannot be."""
        if self._cap is None or not self._cap.higher():
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
        """Bytes of what an op will make; 0 where it may be as many as can be."""
        assert self.limit is not None
        if all(r.alias_info is not None for r in func._schema.returns):
            return 0
        given = on_device(self.values.kind, (*args, *kwargs.values()))
        if self._allocated() + 16 * sum(t.untyped_storage().nbytes() for t in given) + (1 << 20) < self.limit / 2:
            return 0
        return need.of(func, args, kwargs, self.values.kind, given)

    def room(self, nbytes: int, leave: Collection[Cell]) -> None:
        """Evict until so many bytes fit, with something to spare. DoesNotFit if they cannot, and the limit is hard."""
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

    def _evict(self, victim: Cell) -> None:
        """Take its memory. What it hangs on that nothing in the step makes has to stay."""
        self._kept += [
            storage for root in self._victims.roots(victim) if (storage := self.values.memory_of(root)) is not None
        ]
        self.values.evict((victim, victim.version))


def generator(kind: str, named: dict[str, Any]) -> torch.Generator:
    """The generator of random numbers that an op draws from."""
    given = named.get("generator")
    if given is not None:
        found: torch.Generator = given
    elif kind == "cuda":
        found = torch.cuda.default_generators[torch.cuda.current_device()]
    else:
        found = torch.default_generator
    return found
