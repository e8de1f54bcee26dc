"""simrd's rules once more, slowly: plain objects, regions as sets, Python's integers, recursion.

Only the reader of logs is shared with the product. The tests hold the compiled replay against it action for action.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.peers.simrd.log import Backward, Bind, Constant, Instruction, LogCall, LogRelease, Mutate


class Over(Exception):  # noqa: N818
    """The replay ends early: oom or thrash."""


@dataclass(eq=False)
class Storage:
    number: int  # of its first tensor
    nbytes: int
    cost: int = 0
    counted: set[int] = field(default_factory=set)  # ops
    tensors: list["Tensor"] = field(default_factory=list)
    present: bool = False
    locks: int = 0
    pinned: bool = False
    names: int = 0
    last: int = 0
    region: dict[str, set["Storage"]] = field(default_factory=lambda: {"children": set(), "parents": set()})
    region_cost: dict[str, int] = field(default_factory=lambda: {"children": 0, "parents": 0})
    cls: "list[int] | None" = None  # its class while it is not present: a list with one cost, shared

    def neighbours(self, side: str) -> "Iterable[Storage]":
        return (t.storage for mine in self.tensors for t in getattr(mine, side) if t.storage is not self)


@dataclass(eq=False)
class Tensor:
    op: int
    cost: int
    storage: Storage
    nbytes: int  # 0 for a view
    parents: list["Tensor"]
    children: list["Tensor"] = field(default_factory=list)
    siblings: list["Tensor"] = field(default_factory=list)
    defined: bool = False
    names: int = 0


class Reference:
    """One replay. `actions`: ("compute" or "recompute", op), ("evict" or "release", first tensor of the storage)."""

    def __init__(self, policy: str, budget: int, overhead_limit: float) -> None:
        self.policy, self.budget, self.overhead_limit = policy, budget, overhead_limit
        self.clock, self.used, self.peak, self.recomputed, self.scores = 1, 0, 0, 0, 0
        self.pool: list[Storage] = []
        self.tensors: list[Tensor] = []
        self.all: list[Storage] = []
        self.n_ops = 0
        self.bound: dict[str, Tensor] = {}
        self.actions: list[tuple[str, int]] = []
        self.outcome = "ok"

    def run(self, instructions: list[Instruction]) -> "Reference":
        base = sum(i.cost_ns for i in instructions if isinstance(i, LogCall | Mutate))
        self.limit = base * (self.overhead_limit - 1)
        try:
            for i in instructions:
                self.step(i)
            for t in self.bound.values():
                if t.names > 0:
                    self.pin(t)
        except Over as e:
            self.outcome = str(e)
        return self

    def step(self, i: Instruction) -> None:
        match i:
            case Constant(_, name, nbytes):
                (t,) = self.op([], [(nbytes, None)], 0)
                self.bind(name, t)
                self.pin(t)
            case LogCall(_, _, args, results, cost):
                tensors = [self.bound[a] for a in args]
                made = self.op(tensors, [(n, tensors[alias] if alias >= 0 else None) for _, n, alias in results], cost)
                for (name, _, _), t in zip(results, made, strict=True):
                    self.bind(name, t)
            case Mutate(_, _, args, mutated, cost):
                tensors = [self.bound[a] for a in args]
                for k, t in zip(
                    mutated, self.op(tensors, [(tensors[k].storage.nbytes, None) for k in mutated], cost), strict=True
                ):
                    self.bind(args[k], t)
                    self.release(tensors[k])
            case Bind(_, name, source, anew):
                old = self.bound[name] if anew else None
                self.bind(name, self.bound[source])
                if old:
                    self.release(old)
            case LogRelease(_, name):
                if name in self.bound:
                    self.release(self.bound[name])
            case Backward():
                pass

    def bind(self, name: str, t: Tensor) -> None:
        self.bound[name] = t
        t.names += 1
        t.storage.names += 1

    def release(self, t: Tensor) -> None:
        t.names -= 1
        t.storage.names -= 1
        if t.storage.names == 0 and t.storage.present and not t.storage.pinned:
            self.evict(t.storage, "release")

    def pin(self, t: Tensor) -> None:
        if not t.defined:
            self.materialise(t, again=True)
        if not t.storage.pinned:
            self.lock(t.storage)
            t.storage.pinned = True

    def op(self, args: list[Tensor], results: list[tuple[int, Tensor | None]], cost: int) -> list[Tensor]:
        number = self.n_ops
        self.n_ops += 1
        made = []
        for nbytes, base in results:
            storage = base.storage if base else Storage(len(self.tensors), nbytes)
            if not base:
                storage.cls = [0]
                self.all.append(storage)
            if number not in storage.counted:
                storage.counted.add(number)
                storage.cost += cost
            t = Tensor(number, cost, storage, 0 if base else nbytes, args)
            storage.tensors.append(t)
            self.tensors.append(t)
            made.append(t)
        for t in made:
            t.siblings = [u for u in made if u is not t]
        for a in args:
            a.children += made
        self.materialise(made[0], again=False)
        for t in made:
            t.storage.last = self.clock
        return made

    def lock(self, s: Storage) -> None:
        if s.locks == 0:
            self.pool.remove(s)
        s.locks += 1

    def materialise(self, t: Tensor, *, again: bool) -> None:
        for p in t.parents:
            p.storage.last = self.clock
        missing = [p for p in t.parents if not p.defined]
        for p in t.parents:
            if p.defined:
                self.lock(p.storage)
        for p in missing:
            if not p.defined:
                self.materialise(p, again=True)
            self.lock(p.storage)
        need = t.nbytes + sum(u.nbytes for u in t.siblings)
        while self.used + need > self.budget:
            if not self.pool:
                raise Over("oom")
            self.evict(self.choose(), "evict")
        self.compute(t, need, again=again)
        for p in t.parents:
            p.storage.locks -= 1
            if p.storage.locks == 0:
                self.pool.append(p.storage)
        if self.recomputed > self.limit:
            raise Over("thrash")

    def compute(self, t: Tensor, need: int, *, again: bool) -> None:
        self.clock += t.cost
        self.used += need
        self.peak = max(self.peak, self.used)
        self.recomputed += t.cost if again else 0
        self.actions.append(("recompute" if again else "compute", t.op))
        fresh = []
        for u in [*t.siblings, t]:
            if u.defined:
                self.used -= u.nbytes
            if not u.storage.present:
                u.storage.present = True
                fresh.append(u.storage)
                self.pool.append(u.storage)
            u.defined = True
        for s in fresh:
            assert s.cls is not None
            s.cls[0] -= s.cost
            s.cls = None
        for s in fresh:
            self.rebuild(s, "children")
            self.rebuild(s, "parents")
            for side, other in (("children", "parents"), ("parents", "children")):
                for around in self.around(s, side):
                    self.rebuild(around, other)

    def evict(self, s: Storage, how: str) -> None:
        self.actions.append((how, s.number))
        for side, other in (("children", "parents"), ("parents", "children")):
            for around in self.around(s, side):
                gained = (s.region[other] - around.region[other]) | {s}
                around.region[other] |= gained
                around.region_cost[other] += sum(x.cost for x in gained)
        s.present = False
        self.used -= s.nbytes
        self.pool.remove(s)
        for t in s.tensors:
            t.defined = False
        s.cls = [s.cost]
        for x in {*s.neighbours("parents"), *s.neighbours("children")}:
            if x.cls is not None and x.cls is not s.cls:
                old = x.cls
                s.cls[0] += old[0]
                for y in self.all:
                    if y.cls is old:
                        y.cls = s.cls

    def around(self, s: Storage, side: str) -> set[Storage]:
        """What is present around the region of s on one side."""
        reached = self.reach(s, side)
        return {x for y in {s, *reached} for x in y.neighbours(side) if x.present} - {s}

    def reach(self, s: Storage, side: str) -> set[Storage]:
        found: set[Storage] = set()
        todo = [s]
        while todo:
            for x in todo.pop().neighbours(side):
                if not x.present and x not in found:
                    found.add(x)
                    todo.append(x)
        return found

    def rebuild(self, s: Storage, side: str) -> None:
        s.region[side] = self.reach(s, side)
        s.region_cost[side] = sum(x.cost for x in s.region[side])

    def choose(self) -> Storage:
        best, least = None, math.inf
        for s in self.pool:
            self.scores += 1
            score = self.score(s)
            if score <= least:
                best, least = s, score
            if score == 0:
                break
        assert best is not None
        return best

    def score(self, s: Storage) -> float:
        cost, room, age = s.cost, s.nbytes, self.clock - s.last
        match self.policy:
            case "lru":
                return s.last
            case "largest":
                cost, age = 1, 1
            case "msps":
                cost, age = cost + s.region_cost["parents"], 1
            case "dtr":
                cost += s.region_cost["parents"] + s.region_cost["children"]
            case "dtr-eq":
                near = {*s.neighbours("parents"), *s.neighbours("children")}
                cost += sum({id(x.cls): x.cls[0] for x in near if x.cls is not None}.values())
        return cost / (room * age) if room * age > 0 else math.inf
