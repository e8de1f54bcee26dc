"""The trace in terms of values."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from coopsim.base.types import InPlace, Phase, Pinning, Release, Role
from coopsim.trace import Trace
from tests.reference.values import NEVER, Op, Value

GRANULE = {"arena": 512, "counter": 1}
KEPT_ROLES = {Role.PARAMETER, Role.BUFFER, Role.GRADIENT, Role.OPTIMIZER_STATE}
NEVER_COPIED = {  # roles of what an op updates in place
    InPlace.COPY: set(),
    InPlace.COPY_OUTPUTS: KEPT_ROLES - {Role.GRADIENT},
    InPlace.RECOMPUTABLE: set(Role),
    InPlace.FIRST_RUN: set(Role),
}
EXPENSIVE = re.compile(r"\w+\.(mm|addmm|bmm|baddbmm|(cudnn_)?convolution(_backward)?|add\.Tensor)(\.|$)")


class Program:
    """The trace in terms of values: what every op reads and makes, what is freed after it, what is handed on."""

    def __init__(self, trace: Trace, policy: Any, granule: int, cost_model: str, keep_random: bool) -> None:
        self.trace, self.granule = trace, granule
        self.in_place = NEVER_COPIED[policy.in_place]
        self.saved = self.saved_for_backward()
        self.initial: list[Value] = []
        self.ops: list[Op] = []
        self.current: dict[int, Value] = {}  # storage -> its value so far
        self.let_go: list[tuple[int, Value]] = []  # (op, value): the program's frees, in order
        self.release = policy.release
        self.gone: dict[Value, int] = {}  # made by collectives or lost with what they made: when the program frees them
        self.build(cost_model)
        self.handed_on = {self.current[s]: int(h) for s, h in enumerate(trace.becomes) if h >= 0 and s in self.current}
        self.let_go += [(len(self.ops) - 1, v) for _, v in sorted(self.current.items()) if v not in self.handed_on]
        self.fix(policy, keep_random)
        self.due = self.due_frees()

    def size(self, nbytes: int) -> int:
        return -(-nbytes // self.granule) * self.granule

    def new_value(self, storage: int, version: int, producer: Op | None = None) -> Value:
        value = Value(storage, version, self.size(int(self.trace.bytes[storage])), self.trace.role[storage], producer)
        value.saved = storage in self.saved
        self.current[storage] = value
        return value

    def saved_for_backward(self) -> set[int]:
        """Storages that a backward pass uses, and that were there at the start or made in a forward pass."""
        t = self.trace
        made_in = {s: t.phase[o] for o in range(t.n_ops) for s in t.creates[o]}
        backward = [o for o in range(t.n_ops) if t.phase[o] == Phase.BACKWARD]
        used = {s for o in backward for s in [*t.reads[o], *t.mutates[o]]}
        return {s for s in used if made_in.get(s, Phase.FORWARD) == Phase.FORWARD}

    def build(self, cost_model: str) -> None:
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
            decision = {"cost": int(t.cost_ns[o]), "bytes": moved, "flops": flops or moved // 4, "unit": 1}[cost_model]
            expensive = EXPENSIVE.match(t.name[o]) is not None
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
                value.in_place = value.role in self.in_place
                op.outputs.append(value)
                self.let_go.append((o, before))
            op.outputs += [self.new_value(s, 0, op) for s in creates]
            sizes = {i: self.size(n) for i, n in enumerate(t.temporaries[o]) if n}
            op.temporaries = [Value(-1, i, n, Role.TEMPORARY, non_evictable=True) for i, n in sizes.items()]
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
        if policy.pinning == Pinning.SOUND:
            destroyed = {w.before: op.number for op in self.ops for w in op.outputs if w.before and w.in_place}
        dropped = {v: after for after, v in self.let_go}
        expiry: dict[Value, int] = {}
        lost: dict[Value, int] = {}  # by the program's frees of what collectives made
        for v in self.values():
            op = v.producer
            if v.storage < 0:
                continue
            v.non_evictable = op is None or v.role in KEPT_ROLES or v in self.handed_on or (keep_random and op.random)
            if op is not None:
                of = [destroyed.get(u, NEVER) if u.non_evictable else expiry[u] for u in op.inputs]
                expiry[v] = min(of, default=NEVER)
                v.non_evictable = v.non_evictable or any(reader.number > expiry[v] for reader in v.consumers)
                gone = [self.gone.get(u, NEVER) if u.non_evictable else lost[u] for u in op.inputs]
                lost[v] = min(gone, default=NEVER)
                if self.trace.peers[op.number] or any(reader.number > lost[v] for reader in v.consumers):
                    v.non_evictable = True
                    self.gone[v] = dropped.get(v, NEVER)

    def until_gone(self, v: Value) -> bool:
        """Under `release = counted`, whether it stays until nothing refers to it."""
        return self.release == Release.COUNTED and (v.producer is None or v.role in KEPT_ROLES)

    def due_frees(self) -> dict[int, list[Value]]:
        """What is freed after which op: where the program lets go of it, or later if a recomputation needs it."""
        need: dict[Value, int] = {}
        for v in reversed(list(self.values())):
            later = [need[w] for op in v.consumers for w in op.outputs if not w.non_evictable]
            need[v] = max([op.number for op in v.consumers] + later, default=-1)
        due = defaultdict(list)
        for after, v in self.let_go:
            later = v.non_evictable and v not in self.gone and not self.until_gone(v)
            due[max(after, need[v]) if later else after].append(v)
        return due
