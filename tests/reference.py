"""The slow reference: docs/replay.md in plain Python, as it is written, without a thought for speed.

Every search looks at everything, the window tries every run of pieces, recomputation recurses. Only the tests use
it; it shares no code with the compiled core.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from coopsim.trace import Trace
from coopsim.types import Action, Cost, Dead, Divisor, InPlace, Outcome, Pinning, Placement, Role, Search

GRANULE = {"arena": 512, "counter": 1}
KEPT_ROLES = {Role.PARAMETER, Role.BUFFER, Role.GRADIENT, Role.OPTIMIZER_STATE}
EXPENSIVE = {"mm", "bmm", "addmm", "baddbmm", "convolution", "convolution_backward"}
NEVER = 1 << 62

Row = tuple[int, int, int, int, int, int, int, int, int]


class Ended(Exception):  # noqa: N818
    """The replay ends here, with this outcome."""


@dataclass(eq=False)
class Value:
    """A version of a storage, or a temporary (storage -1): what it is, then where it is."""

    storage: int
    version: int
    bytes: int  # rounded up to the granule
    role: str
    producer: "Op | None" = None
    before: "Value | None" = None  # the version that an op mutated to make this one
    consumers: "list[Op]" = field(default_factory=list)
    fixed: bool = False
    free_after: int = NEVER  # the op after which it is freed; NEVER for what is handed on
    resident: bool = False
    live: bool = False
    pins: int = 0
    last_use: int = 0
    parent: "Value | None" = None  # union-find
    set_cost: int = 0

    @property
    def name(self) -> tuple[int, int]:
        return self.storage, self.version

    @property
    def own_cost(self) -> int:
        return self.producer.decision_cost if self.producer else 0

    def relatives(self) -> "list[Value]":
        """The inputs of the op that makes it, then its siblings: what counts if it is missing."""
        op = self.producer
        return [*op.inputs, *(w for w in op.outputs if w is not self)] if op else []

    def root(self) -> "Value":
        """Who stands for its set. Halves the path on the way, which tells when a node between leaves the set."""
        value = self
        while value.parent is not None:
            if value.parent.parent is not None:
                value.parent = value.parent.parent
            value = value.parent
        return value

    def leave_set(self) -> None:
        self.root().set_cost -= self.set_cost
        self.set_cost = self.own_cost
        self.parent = None


@dataclass(eq=False)
class Op:
    number: int
    step: int
    cost: int
    decision_cost: int
    expensive: bool
    random: bool
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    temporaries: list[Value] = field(default_factory=list)


class Program:
    """The trace in terms of values: what every op reads and makes, what is freed after it, what is handed on."""

    def __init__(self, trace: Trace, policy: Any, granule: int, decide_by: str, keep_random: bool) -> None:
        self.trace, self.granule = trace, granule
        self.in_place = policy.in_place == InPlace.RECOMPUTABLE
        self.initial: list[Value] = []
        self.ops: list[Op] = []
        self.current: dict[int, Value] = {}  # storage -> its value so far
        self.let_go: list[tuple[int, Value]] = []  # (op, value): the program's frees, in order
        self.build(decide_by)
        self.handed_on = {self.current[s]: int(h) for s, h in enumerate(trace.becomes) if h >= 0 and s in self.current}
        self.let_go += [(len(self.ops) - 1, v) for _, v in sorted(self.current.items()) if v not in self.handed_on]
        self.fix(policy, keep_random)
        self.due = self.due_frees()

    def size(self, nbytes: int) -> int:
        return -(-nbytes // self.granule) * self.granule

    def new_value(self, storage: int, version: int, producer: Op | None = None) -> Value:
        value = Value(storage, version, self.size(int(self.trace.bytes[storage])), self.trace.role[storage], producer)
        self.current[storage] = value
        return value

    def build(self, decide_by: str) -> None:
        t = self.trace
        for s in range(t.n_storages):
            if t.alive_at_start[s] and t.bytes[s]:
                self.initial.append(self.new_value(s, 0))
        freed = defaultdict(list)
        for s, after in zip(t.freed.tolist(), t.freed_after.tolist(), strict=True):
            freed[after].append(s)
        self.free_storages(freed[-1], -1)
        for o in range(t.n_ops):
            reads, mutates, creates = (
                [s for s in dict.fromkeys(row[o]) if t.bytes[s]] for row in (t.reads, t.mutates, t.creates)
            )
            moved, flops = int(t.bytes_moved[o]), int(t.flops[o])
            decision = {"cost": int(t.cost_ns[o]), "bytes": moved, "flops": flops or moved // 4, "unit": 1}[decide_by]
            word = t.name[o].split(".")
            expensive = word[1] in EXPENSIVE or word[1:] == ["add", "Tensor"]
            op = Op(o, int(t.step[o]), int(t.cost_ns[o]), decision, expensive, bool(t.random[o]))
            op.inputs = [self.current[s] for s in dict.fromkeys(reads + mutates)]
            for value in op.inputs:
                value.consumers.append(op)
            if creates or any(t.role[s] != Role.BUFFER for s in mutates):
                mutates = [s for s in mutates if t.role[s] != Role.BUFFER]  # statistics on the side
            for s in mutates:
                before = self.current[s]
                value = self.new_value(s, before.version + 1, op)
                value.before = before
                op.outputs.append(value)
                self.let_go.append((o, before))
            op.outputs += [self.new_value(s, 0, op) for s in creates]
            sizes = {i: self.size(n) for i, n in enumerate(t.temporaries[o]) if n}
            op.temporaries = [Value(-1, i, n, Role.TEMPORARY, fixed=True) for i, n in sizes.items()]
            self.ops.append(op)
            self.free_storages(freed[o], o)

    def free_storages(self, storages: list[int], after: int) -> None:
        self.let_go += [(after, self.current.pop(s)) for s in storages if s in self.current]

    def values(self) -> Iterator[Value]:
        """All values in the order of their numbers."""
        yield from self.initial
        for op in self.ops:
            yield from op.outputs
            yield from op.temporaries

    def fix(self, policy: Any, keep_random: bool) -> None:
        """Decide what a search may never choose."""
        destroyed: dict[Value, int] = {}
        if self.in_place and policy.pinning == Pinning.SOUND:
            destroyed = {w.before: op.number for op in self.ops for w in op.outputs if w.before}
        expiry: dict[Value, int] = {}
        for v in self.values():
            op = v.producer
            if v.storage < 0:
                continue
            v.fixed = op is None or v.role in KEPT_ROLES or v in self.handed_on or (keep_random and op.random)
            if op is not None:
                of = [destroyed.get(u, NEVER) if u.fixed else expiry[u] for u in op.inputs]
                expiry[v] = min(of, default=NEVER)
                v.fixed = v.fixed or any(reader.number > expiry[v] for reader in v.consumers)

    def due_frees(self) -> dict[int, list[Value]]:
        """What is freed after which op: where the program lets go of it, or later if a recomputation needs it."""
        need: dict[Value, int] = {}
        for v in reversed(list(self.values())):
            later = [need[w] for op in v.consumers for w in op.outputs if not w.fixed]
            need[v] = max([op.number for op in v.consumers] + later, default=-1)
        due = defaultdict(list)
        for after, v in self.let_go:
            due[max(after, need[v]) if v.fixed else after].append(v)
        return due


class Arena:
    """One region as a list of pieces [start, bytes, value or None] in address order; free neighbours never touch."""

    def __init__(self, budget: int, two_ended: bool) -> None:
        self.pieces: list[list[Any]] = [[0, budget, None]] if budget else []
        self.two_ended = two_ended

    def allocate(self, value: Value, cheap: bool) -> bool:
        holes = [(n, start) for start, n, held in self.pieces if held is None and n >= value.bytes]
        if not holes:
            return False
        n, start = min(holes)
        i = self.pieces.index([start, n, None])
        used, rest = value.bytes, n - value.bytes
        if self.two_ended and cheap:
            self.pieces[i : i + 1] = [[start, rest, None], [start + rest, used, value]]
        else:
            self.pieces[i : i + 1] = [[start, used, value], [start + used, rest, None]]
        self.pieces = [p for p in self.pieces if p[1]]
        return True

    def free(self, value: Value) -> None:
        self.pieces[self.index(value)][2] = None
        merged: list[list[Any]] = []
        for piece in self.pieces:
            if merged and merged[-1][2] is None and piece[2] is None:
                merged[-1][1] += piece[1]
            else:
                merged.append(piece)
        self.pieces = merged

    def index(self, value: Value) -> int:
        return next(i for i, (_, _, held) in enumerate(self.pieces) if held is value)

    def address(self, value: Value) -> int:
        return int(self.pieces[self.index(value)][0])

    def replace(self, successor: dict[Value, Value]) -> None:
        for piece in self.pieces:
            piece[2] = successor.get(piece[2], piece[2])

    def in_order(self) -> list[Value]:
        return [held for _, _, held in self.pieces if held is not None]

    def hole_left_by(self, value: Value) -> int:
        i = self.index(value)
        around = [p[1] for p in self.pieces[max(i - 1, 0) : i + 2] if p[2] is None]
        return value.bytes + sum(around)


class Counter:
    """Bytes without addresses. The order is that of allocation."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.held: list[Value] = []

    def allocate(self, value: Value, cheap: bool) -> bool:  # noqa: ARG002
        if sum(v.bytes for v in self.held) + value.bytes > self.budget:
            return False
        self.held.append(value)
        return True

    def free(self, value: Value) -> None:
        self.held.remove(value)

    def address(self, value: Value) -> int:  # noqa: ARG002
        return -1

    def replace(self, successor: dict[Value, Value]) -> None:
        self.held = [successor.get(v, v) for v in self.held]

    def in_order(self) -> list[Value]:
        return self.held

    def hole_left_by(self, value: Value) -> int:
        return value.bytes


class Replay:
    """The state of a replay, and the rows it leaves."""

    def __init__(self, program: Program, policy: Any, memory: Arena | Counter, near_tie: Callable[[], None]) -> None:
        self.program, self.policy, self.memory, self.near_tie = program, policy, memory, near_tie
        self.rows: list[Row] = []
        self.clock = 0
        self.total = 0
        self.step = 0

    # Rows

    def log(self, action: Action, op: int, value: Value | None = None) -> None:
        what = (-1, -1, -1, 0) if value is None else (*value.name, self.memory.address(value), value.bytes)
        self.rows.append((int(action), self.step, op, *what, self.total, 0))

    def drop(self, value: Value, action: Action, op: int) -> None:
        self.log(action, op, value)
        self.memory.free(value)
        value.resident = False
        if action in (Action.EVICT, Action.RELEASE):
            for other in value.relatives():
                if not other.resident and other.root() is not value.root():
                    mine, theirs = value.root(), other.root()
                    mine.set_cost += theirs.set_cost
                    theirs.parent = mine

    # Finding room

    def allocate(self, value: Value, op: Op | None) -> None:
        number = op.number if op else -1
        cheap = value.storage < 0 or op is None or not op.expensive
        window = self.policy.search == Search.WINDOW and isinstance(self.memory, Arena)
        while not self.memory.allocate(value, cheap):
            victims = self.window(value.bytes) if window else self.least()
            if not victims:
                raise Ended(Outcome.OOM)
            for victim in victims:
                self.drop(victim, Action.EVICT, number)
        value.resident = True
        self.log(Action.ALLOC, number, value)

    def can_go(self, value: Value) -> bool:
        return not value.fixed and value.pins == 0

    def least(self) -> list[Value]:
        scores = [(self.score(v), i, v) for i, v in enumerate(self.memory.in_order()) if self.can_go(v)]
        score, _, victim = min(scores, default=(math.inf, 0, None), key=lambda s: s[:2])
        return [victim] if victim and score < math.inf else []

    def window(self, nbytes: int) -> list[Value]:
        """The values of the best run of neighbouring pieces, found by looking at all of them."""
        pieces = self.memory.pieces  # type: ignore[union-attr]
        runs = []
        for first in range(len(pieces)):
            values: list[Value] = []
            for last in range(first, len(pieces)):
                held = pieces[last][2]
                if held is not None and not self.can_go(held):
                    break
                values = values if held is None else [*values, held]
                if sum(p[1] for p in pieces[first : last + 1]) >= nbytes:
                    runs.append((math.fsum(map(self.score, values)), last, last - first, values))
        best = min(runs, default=None, key=lambda r: r[:3])
        if best is None:
            return []
        for score, _, _, values in runs:  # sums of doubles in another order may decide otherwise
            close = math.isclose(score, best[0], rel_tol=1e-9)
            if (
                close
                and (score != best[0] or (values != best[3] and len(values) + len(best[3]) > 2))
                and 0 < score < math.inf
            ):
                self.near_tie()
        return list(best[3])

    def score(self, v: Value) -> float:
        match self.policy.cost:
            case Cost.NONE:
                score = 1.0
            case Cost.OWN:
                score = float(v.own_cost)
            case Cost.SET:
                missing = [x for x in v.relatives() if not x.resident]
                score = float(sum(max(x.root().set_cost, x.own_cost) for x in missing) + v.own_cost)
        if self.policy.staleness:
            staleness = self.clock - v.last_use
            if staleness == 0:
                return math.inf
            score /= staleness
        match self.policy.divisor:
            case Divisor.NOTHING:
                return score
            case Divisor.BYTES:
                return score / v.bytes
            case Divisor.HOLE:
                return score / self.memory.hole_left_by(v)

    # Running ops

    def plan(self, op: Op) -> list[Op]:
        """The op and, transitively, the ops that make what is missing."""
        plan = [op]
        for p in plan:
            for u in p.inputs:
                if not u.resident:
                    if u.producer is None:
                        raise Ended(Outcome.LOST)
                    if u.producer not in plan:
                        plan.append(u.producer)
        return plan

    def run(self, op: Op) -> None:
        for p in self.plan(op):
            for u in p.inputs:
                u.pins += 1
        self.run_after_inputs(op, Action.COMPUTE)

    def run_after_inputs(self, op: Op, action: Action) -> None:
        for u in op.inputs:
            if not u.resident:
                assert u.producer
                self.run_after_inputs(u.producer, Action.RECOMPUTE)
        self.run_one(op, action)

    def run_one(self, op: Op, action: Action) -> None:
        takes_over: dict[Value, Value] = {}
        for w in op.outputs + op.temporaries:
            w.pins += 1
            if w.resident:
                continue
            if w.before and self.program.in_place and w.before.pins == 1:
                takes_over[w] = w.before
            else:
                self.allocate(w, op)
        self.log(action, op.number)
        for u in op.inputs:
            u.last_use = self.clock
        for w in op.outputs:
            if w in takes_over:
                u = takes_over[w]
                self.memory.replace({u: w})
                u.resident, w.resident = False, True
                if action == Action.COMPUTE:
                    u.live = False
                self.log(Action.MOVE, op.number, w)
            w.last_use = self.clock
            if not w.fixed:
                w.leave_set()
            if action == Action.COMPUTE:
                w.live = True
        self.clock += op.decision_cost
        self.total += op.cost
        for t in op.temporaries:
            self.drop(t, Action.FREE, op.number)
            t.pins -= 1
        for v in op.outputs + op.inputs:
            v.pins -= 1
            unwanted = not v.fixed and v.pins == 0 and v.resident and not v.live
            if unwanted and self.policy.dead == Dead.RELEASE:
                self.drop(v, Action.RELEASE, op.number)

    # Rounds

    def free_due(self, after: int) -> None:
        for v in self.program.due.get(after, ()):
            v.live = False
            if v.resident:
                self.drop(v, Action.FREE if v.fixed else Action.RELEASE, after)

    def start(self) -> None:
        for v in self.program.initial:
            v.live = True
            self.allocate(v, None)

    def end_round(self) -> None:
        for v in self.program.values():
            if v.resident and not v.live:
                self.drop(v, Action.FREE, -1)
        first = {v.storage: v for v in self.program.initial}
        heirs = {v: first[h] for v, h in self.program.handed_on.items()}
        self.memory.replace(heirs)
        for v in heirs:
            v.resident = v.live = False
        for v, heir in heirs.items():
            heir.resident = heir.live = True
            if heir is not v:
                self.log(Action.MOVE, -1, heir)
        for v in self.program.values():
            v.parent, v.set_cost = None, v.own_cost

    def go(self, steps: int, overhead_limit: float) -> None:
        """All steps, round after round; raises Ended if it cannot go on."""
        steps_a_round = self.program.ops[-1].step + 1
        cost_of_step = [sum(op.cost for op in self.program.ops if op.step == k) for k in range(steps_a_round)]
        for v in self.program.values():
            v.set_cost = v.own_cost
        base = 0
        self.start()
        for first_step in range(0, steps, steps_a_round):
            self.step = first_step
            self.free_due(-1)
            for op in self.program.ops:
                if first_step + op.step >= steps:
                    return
                if op.number == 0 or first_step + op.step > self.step:
                    self.step = first_step + op.step
                    base += cost_of_step[op.step]
                self.run(op)
                if self.total > overhead_limit * base:
                    raise Ended(Outcome.THRASH)
                self.free_due(op.number)
            self.end_round()


def replay(
    trace: Trace,
    policy: Any,
    allocator: str,
    budget: int,
    steps: int,
    decide_by: str = "cost",
    overhead_limit: float = 10.0,
    random: str = "recompute",
    near_tie: Callable[[], None] = lambda: None,
) -> tuple[str, list[Row]]:
    """The outcome and rows of a schedule; visits are 0. `near_tie` is called where two windows cost nearly the same."""
    granule = GRANULE[allocator]
    program = Program(trace, policy, granule, decide_by, random == "keep")
    budget = budget // granule * granule
    memory = Counter(budget) if allocator == "counter" else Arena(budget, policy.placement == Placement.TWO_ENDED)
    state = Replay(program, policy, memory, near_tie)
    try:
        state.go(steps, overhead_limit)
    except Ended as stop:
        return str(stop), state.rows
    return str(Outcome.OK), state.rows
