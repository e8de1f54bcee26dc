"""Predicts the requests of a planned step to its allocator, in order, with their lifetimes. Knows no torch.

It simulates what live.follow and live.values do to memory, without tensors: blocks, with the program's references and
ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from coopsim.base.types import GRANULE
from coopsim.live.actions import Action, Kind, Recompute
from coopsim.live.plan import Plan, Row
from coopsim.study.validate.values import Value
from coopsim.trace import Trace
from coopsim.trace.alive import round_up

TO_THE_END = 1 << 40  #: the `until` of what is still allocated when the step is over


@dataclass(eq=False)
class Requests:
    """The requests of a step, numbered in order. Entry r of the plan's op log makes start[r] to start[r + 1] - 1.

    nbytes: rounded up, never 0. until: the number of the first request after the block is freed. initial: (bytes,
    until) of the blocks that exist at the start and are freed in the step. role: of what a request is for, None for
    temporaries.
    """

    start: list[int] = field(default_factory=lambda: [0])
    nbytes: list[int] = field(default_factory=list)
    until: list[int] = field(default_factory=list)
    role: list[str | None] = field(default_factory=list)
    initial: list[tuple[int, int]] = field(default_factory=list)


def requests_of(plan: Plan) -> Requests:
    """The requests that one step by the plan makes, in order, with their lifetimes, by simulation."""
    return _Simulation(plan, plan.trace).run()


@dataclass(eq=False)
class _Block:
    """An allocated block. request: -1 for one that existed at the start. references: the program's, and ours."""

    request: int
    nbytes: int
    references: int = 1


@dataclass(eq=False)
class _Tracked:
    """A simulated TrackedStorage. block: of the program's storage; None if evicted or freed. coming: being fetched."""

    nbytes: int
    block: _Block | None = None
    alive: bool = False
    version: int = 0
    held: dict[int, _Block] = field(default_factory=dict)
    coming: _Block | None = None


class _Simulation:
    def __init__(self, plan: Plan, trace: Trace) -> None:
        self._plan, self._found = plan, Requests()
        self._creates, self._temporaries = trace.creates.rows(), trace.temporaries.rows()
        self._codes = trace.requests.rows()
        self._storages = [_Tracked(round_up(n, GRANULE)) for n in trace.bytes.tolist()]
        for tracked, there in zip(self._storages, trace.alive_at_start.tolist(), strict=True):
            if there and tracked.nbytes:
                tracked.alive, tracked.block = True, _Block(-1, tracked.nbytes)
        self._frees = list(zip(trace.freed_after.tolist(), trace.freed.tolist(), strict=True))
        self._freed = 0

    def run(self) -> Requests:
        self._let_go(-1)
        for row in self._plan.rows:
            if row.entry.op >= 0:
                self._let_go(row.entry.op - 1)
                self._row(row)
                self._let_go(row.entry.op)
            self._found.start.append(len(self._found.nbytes))
        return self._found

    def _row(self, row: Row) -> None:
        storages = self._storages
        for action in row.before:
            self._act(action)
        for s, v in row.copies:
            if self._memory((s, v)) is not None:
                storages[s].held[v] = self._take(storages[s].nbytes)
        for s, block in self._ask(row.entry.op).items():
            storages[s].block, storages[s].alive, storages[s].version = block, True, 0
        for s, v in self._plan.program.writes[row.entry.op]:
            storages[s].version = v
        for s, v in row.keep:
            tracked = storages[s]
            if tracked.version == v and tracked.block is not None and v not in tracked.held:
                tracked.block.references += 1
                tracked.held[v] = tracked.block

    def _act(self, action: Action | Recompute) -> None:
        if isinstance(action, Recompute):
            self._again(action)
            return
        s, v = action.value
        tracked = self._storages[s]
        match action.kind:
            case Kind.DROP:
                self._give(tracked.held.pop(v, None))
            case Kind.EVICT | Kind.EVICT_OFFLOADED:
                self._give(tracked.held.pop(v, None))
                if tracked.version == v:
                    block, tracked.block = tracked.block, None
                    self._give(block)
            case Kind.FETCH if tracked.alive and tracked.version == v and tracked.block is None:
                tracked.coming = self._take(tracked.nbytes)
            case Kind.ARRIVE if tracked.coming is not None:
                coming, tracked.coming = tracked.coming, None
                self._assign(s, v, coming)

    def _again(self, action: Recompute) -> None:
        """Recompute, as Values.run does."""
        program, op = self._plan.program, action.op
        after = dict(program.writes[op])
        made: dict[int, _Block] = {}
        for s, v in program.reads[op]:
            if s in self._plan.mutates[op]:
                tracked = self._storages[s]
                taken_over = (s, after.get(s)) in action.takeovers and v in tracked.held
                made[s] = tracked.held.pop(v) if taken_over else self._take(tracked.nbytes)
        made |= self._ask(op)
        for s, v in dict.fromkeys(action.makes):
            if s in made:
                self._assign(s, v, made.pop(s))
        for block in made.values():
            self._give(block)

    def _assign(self, s: int, v: int, block: _Block) -> None:
        tracked = self._storages[s]
        if not (tracked.alive and tracked.version == v):
            self._give(tracked.held.get(v))
            tracked.held[v] = block
        elif tracked.block is None:
            tracked.block = block
        else:
            self._give(block)

    def _memory(self, value: Value) -> _Block | None:
        s, v = value
        tracked = self._storages[s]
        return tracked.held.get(v) or (tracked.block if tracked.version == v else None)

    def _ask(self, op: int) -> dict[int, _Block]:
        """Make the requests of one run of an op; return the blocks of what it creates. It frees all others."""
        creates, temporaries = self._creates[op], self._temporaries[op]
        codes: Sequence[int] = self._codes[op] or [*(-1 - k for k in range(len(creates))), *temporaries]
        found: dict[int, _Block] = {}
        inside: list[_Block | None] = []
        for code in codes:
            if code > 0:
                inside.append(self._take(round_up(code, GRANULE)))
            elif -code <= len(creates):
                s = creates[-code - 1]
                if self._storages[s].nbytes:
                    found[s] = self._take(self._storages[s].nbytes, self._plan.trace.role[s])
            else:
                k = -code - len(creates) - 1
                self._give(inside[k])
                inside[k] = None
        for block in inside:
            self._give(block)
        return found

    def _take(self, nbytes: int, role: str | None = None) -> _Block:
        found = self._found
        found.role.append(role)
        found.nbytes.append(nbytes)
        found.until.append(TO_THE_END)
        return _Block(len(found.nbytes) - 1, nbytes)

    def _give(self, block: _Block | None) -> None:
        if block is None:
            return
        block.references -= 1
        if block.references:
            return
        now = len(self._found.nbytes)
        if block.request >= 0:
            self._found.until[block.request] = now
        else:
            self._found.initial.append((block.nbytes, now))

    def _let_go(self, op: int) -> None:
        """Drop the program's references that it drops before op number `op` is over."""
        while self._freed < len(self._frees) and self._frees[self._freed][0] <= op:
            tracked = self._storages[self._frees[self._freed][1]]
            self._freed += 1
            block, tracked.block, tracked.alive = tracked.block, None, False
            self._give(block)
