"""Carries out a plan op by op, on the tensors of a running step.

The plan's tape has an entry for each op, and a row says what to do there (plan.py). A cell is a storage of the running
step, and a call an op that can be run again (cells.py). The observer is compiled code that follows plans, faster.
"""

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from coopsim.live.actions import Action, Arrive, Drop, Evict, Fetch, Leave, Offload, Recompute
from coopsim.live.cells import Call, Cell, Spec
from coopsim.live.observed import Observed
from coopsim.live.observer import Observer, State
from coopsim.live.operands import change, generator, given_on
from coopsim.live.plan import Plan, Row
from coopsim.live.skipped import Skipped
from coopsim.live.values import Values


class Deviation(Exception):  # noqa: N818 (no error: such a step goes on without the plan)
    """The step differs from the one that the plan was made for. The message says how."""


class Outgrown(Deviation):
    """The step's data are larger than those that the plan was made for."""


#: An op as it ran: the cells of its operands and of its results, and its call if that was kept.
RanOp = tuple[list[Cell | None], list[Cell | None], Call | None]


class Follow:
    """Follows a plan through one step.

    Either Python does so, or the compiled observer. While the observer does, `observed` is set, and the state of cells
    and calls is known only there until `fetch`. broken: why the plan cannot be followed any further; "" if it can.
    """

    def __init__(
        self,
        plan: Plan,
        values: Values,
        stays: Mapping[int, Any] | None = None,
        cell_of: Callable[[torch.UntypedStorage], Cell] = Cell,
    ) -> None:
        """stays: weak references to storages that the step finds, by number of the trace (Kind.stays), whose cells are
        those of `cell_of`.
        """
        self.plan, self.rows, self.values = plan, plan.rows, values
        self.observed: Observed | None = None
        self._observed: Observed | None = None  # the same, while Python follows
        self.state: Any = (ctypes.c_int64 * len(State.FIELDS))()  #: by State; the observer's own if there is one
        self.done = 0  #: of the actions before the next op, how many are done
        self.broken = ""
        self.started = False  #: whether the next op has begun, after the actions before it
        self.cells: dict[int, Cell] = {}  # by number of the storage
        self._by_key: dict[int, Cell] = {}
        self._calls: dict[int, Call] = {}
        self._several_streams = plan.several_streams
        for s in plan.early:
            storage = stays[s]() if stays is not None and s in stays else None
            if storage is not None:
                self._know(s, cell_of(storage))

    @property
    def at(self) -> int:
        """The number of the tape's entry that comes next, from 0; at the end of the plan, the number of its rows."""
        return int(self.state[State.AT])

    def advance(self) -> None:
        """Go on to the next entry, as the op of this one has run."""
        self.state[State.AT] += 1

    def begin(self, observer: Observer | None) -> None:
        """Start to follow the plan, from entry `at` on: by the observer if there is one, and one stream only."""
        if observer is not None and not self._several_streams:
            self._observed = Observed(observer, self.plan, self.values, self.cells, self._calls)
            observer.state[State.AT] = self.at
            self.state = observer.state
            self.hand_over()

    def hand_over(self) -> bool:
        """Let the observer go on, if there is one. False if the plan cannot be followed any further."""
        if self._observed is not None and not self.broken:
            self.observed = self._observed
            self.observed.follow(self.at)
        return not self.broken

    def fetch(self) -> None:
        """Let Python go on in place of the observer, with what that knows. Does nothing if Python follows already."""
        observed, self.observed = self.observed, None
        if observed is not None:
            self.done = observed.state[State.DONE]
            if observed.state[State.BROKEN]:
                self.broken = "works on other tensors"
            for cell in observed.fetch():
                self._by_key[cell.key] = cell

    def end(self) -> None:
        """Stop following the plan, as the step is over or leaves the plan, and take back what the observer knows."""
        over = self.at == len(self.rows) and not (self.plan.away or self.plan.finds)
        if self.observed is not None and self.observed.end(over=over):
            self.observed = None
        self.fetch()
        self._observed = None
        self.state = (ctypes.c_int64 * len(State.FIELDS))(*self.state)

    @property
    def places(self) -> dict[Cell, int]:
        """The cells that the plan has on the host at both ends of the step, and where in its area."""
        return {self.cells[s]: at for s, at in self.plan.away.items() if s in self.cells}

    def leave(self) -> None:
        """At the end of the plan, leave on the host what it has there then."""
        for cell in self.places:
            self.values.residency.leave((cell, cell.version))

    def pin(self, tensor: torch.Tensor) -> None:
        """Keep a tensor's memory in place until the step is over: it is not evicted. Unknown tensors are ignored."""
        storage = tensor.untyped_storage()
        if self.observed is not None:
            self.observed.pin(storage)
        else:
            cell = self.cell_of(storage)
            if cell is not None:
                cell.pin()

    def cell_of(self, storage: torch.UntypedStorage) -> Cell | None:
        """The cell of a storage, while Python follows; None if it is not known."""
        cell = self._by_key.get(storage._cdata)
        return cell if cell is not None and cell.ref() is storage else None

    def take_over(self, before: Iterable[RanOp], *, held: bool = False) -> bool:
        """Follow the plan from the middle of a step whose first ops have run without it.

        True if that is done; False, with nothing evicted, if they worked on other tensors than the plan has.

        before: those ops, in order. What the plan would have evicted by now is evicted. held: they ran by another plan,
        whose held values are dropped unless this plan wants them, too.
        """
        cells: dict[int, Cell] = {}
        versions: dict[int, int] = {}
        skipped, watched = Skipped(), self.plan.watched
        late, wanted = skipped.late, skipped.wanted
        for row, (inputs, results, call) in zip(self.rows, before, strict=False):
            for numbers, found in ((row.entry.inputs, inputs), (row.entry.results, results)):
                for storage, cell in zip(numbers, found, strict=True):
                    if storage in watched and (cell is None or cells.setdefault(storage, cell) is not cell):
                        return False
            for action in row.before:
                skipped.note(action)
            versions |= dict(row.makes)
            wanted.update(row.keep)
            wanted.update(row.copies)
            if call is not None and row.call:
                self._calls[row.entry.op] = call
            self.advance()
        if any(cells[s].version != version for s, version in versions.items()):
            return False
        self.cells |= cells
        self._by_key = {cell.key: cell for cell in self.cells.values()}
        for s, cell in cells.items():
            cell.number = s
        for s, version in late:
            self.values.residency.evict((cells[s], version))
        for copy in skipped.copies.values():
            self._act(copy)
        for copied in skipped.left:
            self._act(Leave(copied))
        for s, cell in cells.items() if held else ():
            for version in {v for v in cell.held if (s, v) not in wanted}:
                del cell.held[version]
        return True

    def taken(self) -> Iterator[RanOp]:
        """The ops that have run by the plan so far, in order, in the form in which another's `take_over` takes them."""
        for row in self.rows[: self.at]:
            inputs, results = (
                [self.cells.get(s) for s in numbers] for numbers in (row.entry.inputs, row.entry.results)
            )
            yield inputs, results, self._calls.get(row.entry.op)

    def run(self, row: Row, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one op, and the plan's actions before and after it; return its result.

        Raises Deviation, before anything was done, if its operands are not those of the plan.
        """
        self.started = False
        values, residency = self.values, self.values.residency
        mutable = row.entry.mutable
        if row.look or mutable:
            given = given_on(values.kind, (*args, *kwargs.values()) if kwargs else args)
            self._bind(row.look, given)
            if mutable:
                self.check_changed(row, given)
        if row.idle:
            self.started = True
            return values.attempt(row.func, lambda: row.func(*args, **kwargs), ())
        if row.entry.op < 0:
            self.started = True
            return row.func(*args, **kwargs)
        cells = self.cells
        for action in row.before[self.done :]:
            self._act(action)
        self.done = 0
        if residency.gone:
            away = [(cell, cell.version) for _, s in row.look if (cell := cells[s]).gone]
            if away:  # by plan they are there
                values.bring(away)
        for s, v in row.copies:
            storage = residency.memory_of((cells[s], v))
            if storage is not None and v not in cells[s].held:
                cells[s].held[v] = values.copy(storage)
        call = self._call(row, args, kwargs) if row.call else None
        if self._several_streams and residency.streams is not None:
            residency.streams.use(cells[s] for _, s in row.look)
        self.started = True
        out = values.attempt(row.func, lambda: row.func(*args, **kwargs), ())
        for s, v in row.makes:
            if s in cells:
                cells[s].version = v
        if row.find:
            try:
                self._bind(row.find, given_on(values.kind, (out,)))
            except Deviation as why:
                self.broken = str(why)  # the op has run, and must not run again
                return out
        if self._several_streams and residency.streams is not None:
            residency.streams.made(cells[s] for _, s in row.find)
        if call is not None:
            call.made(row.entry.results, self.plan.program.writes[row.entry.op], cells)
            self._calls[row.entry.op] = call
        for s, v in row.keep:
            kept = cells.get(s)
            if kept is not None and kept.version == v and not kept.gone and v not in kept.held:
                storage = kept.ref()
                if storage is not None:
                    kept.held[v] = storage
        return out

    def check_elements(self, row: Row, given: list[torch.Tensor]) -> None:
        """Raise Outgrown if an operand in `given` has more elements than in the step that the plan was made for."""
        if any(tensor.numel() > n for tensor, n in zip(given, row.elements, strict=False)):
            raise Outgrown("works on larger tensors")

    def check_changed(self, row: Row, given: list[torch.Tensor]) -> None:
        """Raise Deviation if an op that works in place would change a storage that the plan takes to be unchanged.

        given: the op's operands. row: what the plan has in its place.
        """
        expected = {self.cells[s] for _, s in row.look}
        for tensor in given:
            storage = tensor.untyped_storage()
            cell = self._by_key.get(storage._cdata)
            if cell is not None and cell not in expected and cell.ref() is storage:
                raise Deviation("changes other tensors")

    def _act(self, action: Action) -> None:
        cells = self.cells
        if isinstance(action, Recompute):
            call = self._calls.get(action.op)
            if call is None:
                return
            targets = [(cells[s], v) for s, v in action.targets]
            takeovers = [(cells[s], v) for s, v in action.takeovers]
            self.values.bring(call.reads)  # by plan they are there
            self.values.run(call, targets, takeovers)
            return
        s, v = action.value
        cell = cells.get(s)
        if cell is None:
            return
        match action:
            case Evict():
                self.values.residency.evict((cell, v))
            case Drop():
                cell.held.pop(v, None)
            case Offload(at=at):
                self.values.residency.offload((cell, v), at)
            case Leave():
                self.values.residency.leave((cell, v))
            case Fetch():
                self.values.fetch((cell, v))
            case Arrive():
                self.values.residency.arrive((cell, v))

    def _bind(self, watched: list[tuple[int, int]], found: list[torch.Tensor]) -> None:
        """Match tensors with the storages of the plan. Deviation if a storage was matched with another before.

        watched: (position in `found`, storage of the plan).
        """
        cells = self.cells
        for i, s in watched:
            if i >= len(found):
                raise Deviation("has other operands")
            storage = found[i].untyped_storage()
            cell = cells.get(s)
            if cell is None:
                self._know(s, Cell(storage))
            elif cell.ref() is not storage:
                raise Deviation("works on other tensors")

    def _know(self, s: int, cell: Cell) -> None:
        self.cells[s] = self._by_key[cell.key] = cell
        cell.number = s

    def _call(self, row: Row, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        cells, kind = self.cells, self.values.kind
        numbers = iter(row.entry.inputs)

        def spec(tensor: torch.Tensor) -> Any:
            if tensor.device.type != kind or tensor.layout is not torch.strided:
                return tensor.detach().clone()
            return Spec(cells.get(next(numbers)), tensor)

        op = row.entry.op
        call = Call(
            row.func,
            change(args, torch.Tensor, spec),
            change(kwargs, torch.Tensor, spec) if kwargs else {},
            [(cells[s], v) for s, v in self.plan.program.reads[op]],
            [cells[s] for s in self.plan.mutates[op] if s in cells],
        )
        call.gradients = torch.is_grad_enabled()
        if self.plan.random[op]:
            names = [a.name for a in row.func._schema.arguments]
            call.generator = generator(kind, dict(zip(names, args, strict=False)) | kwargs)
            call.state = call.generator.get_state()
        return call
