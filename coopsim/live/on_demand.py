"""Evicting when memory runs short, for steps that go by no plan: greedily, what costs least per byte and staleness."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from coopsim.capture import effects
from coopsim.live import device, refused
from coopsim.live.arena.cap import ArenaCap
from coopsim.live.cap import Cap
from coopsim.live.cells import Call, Cell, Spec, Value, change, on_device
from coopsim.live.errors import DoesNotFit
from coopsim.live.values import Values
from coopsim.text import human
from coopsim.types import Role

_SMALL = 1 / 20_000  #: of the budget: what is smaller is not worth evicting
_FOR_ROOM = 1 / 8  #: of the budget: what is evicted in a step because of fragmentation, before more is taken
_SPARE = 16  #: of the budget, the part that PyTorch's caching allocator is left because it fragments
_PATIENCE = 100  #: recomputations that a step may have above the ops that it has had
_ANCESTORS = 32  #: evicted values that a score looks back at, at most
_FAR = 8  #: times the cost of those that were looked at: what more than these would have to be made for


class OnDemand:
    """Runs the ops of a step one by one, and knows all of them, so that whatever they made can be evicted.

    limit: bytes, None: there is no budget yet. meter: of a GPU's allocator, None on the CPU. cap: on the allocator.
    hard: rather than to go over the limit, fail. workspace: bytes that the op that ran last took and gave back inside.
    """

    def __init__(
        self, values: Values, limit: int | None, meter: device.Meter | None, cap: Cap | ArenaCap | None, *, hard: bool
    ) -> None:
        self.values, self.limit, self._meter, self._cap, self._hard = values, limit, meter, cap, hard
        values.short = self._short
        if isinstance(cap, ArenaCap) or (cap is not None and cap.holds):
            values.roomy = self._roomy
        self.over_cap = False  #: the allocator had to take more than the budget
        self._for_room = 0  # bytes evicted because the allocator could not use what was free
        self.workspace = 0
        self._workspaces: dict[Any, int] = {}  # by op, the most so far
        self._cells: dict[int, Cell] = {}
        self._all: list[Cell] = []
        self._made: list[Cell] = []
        self._kept: list[torch.UntypedStorage] = []
        self._now = 0
        self.planned: Callable[[], Iterable[Cell]] = tuple  #: what is known of a step that goes by a plan
        self._ends: set[Value] = set()  # what the op that runs changes, and nothing could make again
        self.last: tuple[list[Cell | None], list[Cell | None], Call | None] = [], [], None

    def adopt(self, cells: Iterable[Cell]) -> None:
        """These are known already: the step went by a plan until now."""
        for cell in cells:
            self._all.append(cell)
            if cell.ref() is not None:
                self._cells[cell.key] = cell
                if cell.version in cell.makers:
                    self._made.append(cell)

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
        self._now += 1
        operands = on_device(values.kind, (*args, *kwargs.values()))
        inputs = [self.cell(tensor) for tensor in operands]
        cells = list(dict.fromkeys(c for c in inputs if c is not None))
        named = effects.arguments(func, args, kwargs)
        changed = [named[name] for name in effects.mutated(func, named)]
        mutated = list(dict.fromkeys(c for t in on_device(values.kind, changed) if (c := self.cell(t)) is not None))
        leave = set(cells)
        self._ends = {(cell, cell.version) for cell in mutated if cell.version not in cell.makers}
        if values.gone:
            wanted = [(c, c.version) for c in cells] + self._hang_on_ends()
            values.bring(wanted, self.room, self._now)
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
            cell.touched = self._now
        self._made += created
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
        if isinstance(self._cap, ArenaCap):
            return self._short_of_addresses(self._cap, leave)
        victim = self._victim(leave) if self._for_room < (self.limit or 0) * _FOR_ROOM else None
        if victim is None and self._cap is not None and self._cap.higher():
            self.over_cap = True
            return True
        victim = victim or self._victim(leave)
        if victim is None:
            return False
        self._for_room += victim.nbytes
        self._evict(victim)
        return True

    def _short_of_addresses(self, cap: ArenaCap, leave: Collection[Cell]) -> bool:
        """The arena has no hole for a request: evict until there are so many bytes, and bring these side by side."""
        while cap.missing > 0 and (victim := self._victim(leave)) is not None:
            self._evict(victim)
        if cap.missing <= 0 and self._move(cap):
            return True
        for one in (victims := self._side_by_side(cap, leave)):
            self._evict(one)
        if victims:
            return True
        if (victim := self._victim(leave)) is not None:
            self._evict(victim)
            return True
        if cap.higher():
            self.over_cap = True
            return True
        return False

    def _move(self, cap: ArenaCap) -> bool:
        """Move what this step has made, so that the request that got no room gets it. False: that will not do."""
        cells = {}
        here = {torch.cuda.current_stream()} if self.values.streams is not None else set()
        for cell in (*self._made, *self.planned()):
            storage = cell.ref()
            if storage is not None and not cell.gone and cell.streams <= here and not self.values.must_stay(cell):
                cells[cap.offset(storage)] = storage
        moves = cap.moves(set(cells))
        for at, to in moves:
            with cap.at(to):
                self.values.move(cells[at])
        return bool(moves)

    def _side_by_side(self, cap: ArenaCap, leave: Collection[Cell]) -> list[Cell]:
        """Of the arena, what makes room for the request that got none, for the least cost."""
        found = [cell for cell in self._evictable(leave, 0) if self._can_be_made(cell)]
        cells = {cap.offset(storage): cell for cell in found if (storage := cell.ref()) is not None}
        price = {at: self._cost(cell) / (self._now - cell.touched + 1) for at, cell in cells.items()}
        return [cells[at] for at in cap.cheapest(price)]

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

    def _hang_on_ends(self) -> list[Value]:
        """What was evicted and cannot be made once this op has changed what it changes."""
        if not self._ends:
            return []
        found = []
        for cell in self.values.gone.values():
            if cell.ref() is not None:
                seen: set[Value] = set()
                stack: list[Value] = [(cell, cell.version)]
                while stack:
                    value = stack.pop()
                    if value in self._ends:
                        found.append((cell, cell.version))
                        break
                    if value not in seen and value[1] in value[0].makers:
                        seen.add(value)
                        stack += value[0].makers[value[1]].reads
        return found

    def _need(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Bytes of what an op will make: of its results on the device `meta`, where there are any."""
        assert self.limit is not None
        if all(r.alias_info is not None for r in func._schema.returns):
            return 0
        given = on_device(self.values.kind, (*args, *kwargs.values()))
        if self._allocated() + 16 * sum(t.untyped_storage().nbytes() for t in given) + (1 << 20) < self.limit / 2:
            return 0

        def bare(tensor: torch.Tensor) -> torch.Tensor:
            if tensor.device.type != self.values.kind:
                return tensor
            return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")

        def there(device: torch.device) -> torch.device:
            return torch.device("meta") if device.type == self.values.kind else device

        try:
            with torch._C._DisableTorchDispatch(), torch._C._AutoDispatchBelowAutograd(), torch._C._DisableAutocast():
                plain = change(args, torch.Tensor, bare), change(kwargs, torch.Tensor, bare)
                named = change(plain[1], torch.device, there)
                if not given:
                    named["device"] = torch.device("meta")
                out = func(*plain[0], **named)
        except Exception:  # sizes that hang on data, ops without a formula: what the largest operand has is the guess
            return max((t.untyped_storage().nbytes() for t in given), default=0)
        return sum(
            {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in on_device("meta", (out,))}.values()
        )

    def room(self, nbytes: int, leave: Collection[Cell]) -> None:
        """Evict until so many bytes fit, with something to spare. DoesNotFit if they cannot, and the limit is hard."""
        if self.limit is None:
            return
        over = self._allocated() + nbytes - self.limit
        fragments = self._meter is not None and not isinstance(self._cap, ArenaCap)
        missing = over + (self.limit // _SPARE if fragments else 0)
        if missing > 0 and self.values.recomputes > self._now + _PATIENCE:
            if self._hard and over > 0:
                raise DoesNotFit(
                    f"evicting on demand in a budget of {human(self.limit)} runs more ops again than the step has; "
                    "no plan is known yet"
                )
            return
        while missing > 0:
            victim = self._victim(leave)
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
            storage for cell, version in self._roots(victim) if (storage := self.values.memory_of((cell, version)))
        ]
        self.values.evict((victim, victim.version))

    def _victim(self, leave: Collection[Cell]) -> Cell | None:
        best, least = None, float("inf")
        for cell in self._evictable(leave, _SMALL * (self.limit or 0)):
            score = self._cost(cell) / (cell.nbytes * (self._now - cell.touched + 1))
            if score < least and self._can_be_made(cell):
                best, least = cell, score
        return best

    def _evictable(self, leave: Collection[Cell], small: float) -> Iterator[Cell]:
        """What may be taken, if it can be made again, and has so many bytes at least."""
        self._made = [cell for cell in self._made if cell.ref() is not None]
        for cell in self._made:
            if cell.gone or cell in leave or cell.nbytes < small or cell.version in cell.held:
                continue
            if self.values.must_stay(cell):
                continue
            if self.values.ledger.role(cell.key) is Role.GRADIENT:
                continue  # it would take the activations of its layer, which may be gone, too
            yield cell

    def _cost(self, cell: Cell) -> int:
        """Of making it again, with what was evicted of what it is made from."""
        calls: dict[Call, None] = {}
        stack: list[Value] = [(cell, cell.version)]
        while stack and len(calls) < _ANCESTORS:
            value = stack.pop()
            call = value[0].makers.get(value[1])
            if call is not None and call not in calls:
                calls[call] = None
                stack += [read for read in call.reads if self.values.memory_of(read) is None]
        return sum(call.cost for call in calls) * (_FAR if stack else 1)

    def _can_be_made(self, cell: Cell) -> bool:
        """Is all there still that it is made from, back to what was there at the start, and will it be?"""
        return all(self.values.memory_of(root) is not None and root not in self._ends for root in self._roots(cell))

    def _roots(self, cell: Cell) -> list[Value]:
        """What it is made from in the end, and nothing in the step makes."""
        found: list[Value] = []
        seen: set[Value] = set()
        stack: list[Value] = [(cell, cell.version)]
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
