"""The optimum by brute force, and a checker of schedules: docs/optimum.md's rules again, on the rows of a trace.

It shares no code with coopsim.study.optimum, nor with the replay.
"""

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from coopsim.base.types import Role
from coopsim.trace import Trace

_KEPT = {Role.PARAMETER, Role.BUFFER, Role.GRADIENT, Role.OPTIMIZER_STATE}
Value = tuple[int, int]  # storage, version


@dataclass
class Step:
    """An op: what it needs and makes; `over` maps new versions to the older ones whose place they may take."""

    cost: int
    ins: frozenset[Value]
    outs: frozenset[Value]
    over: dict[Value, Value]
    inside: int
    must: frozenset[Value] = frozenset()  # fixed values that are there until this op has run for the first time


class Rules:
    """A trace as steps over values."""

    def __init__(self, trace: Trace) -> None:
        self.nbytes = [int(n) for n in trace.bytes]
        version = dict.fromkeys(range(trace.n_storages), 0)
        alive = {s for s in range(trace.n_storages) if trace.alive_at_start[s] and self.nbytes[s]}
        self.start = frozenset((s, 0) for s in alive)
        freed = [(int(a), int(s)) for a, s in zip(trace.freed_after, trace.freed, strict=True)]
        alive -= {s for a, s in freed if a < 0}
        self.steps: list[Step] = []
        held: list[set[Value]] = []  # the program holds them while each op runs, results not yet included
        for op in range(trace.n_ops):
            held.append({(s, version[s]) for s in alive})
            changed = [s for s in dict.fromkeys(trace.mutates[op]) if self.nbytes[s]]
            made = [s for s in trace.creates[op] if self.nbytes[s]]
            used = [s for s in {*trace.reads[op], *changed} if self.nbytes[s]]
            ins = frozenset((s, version[s]) for s in used)
            if made or any(trace.role[s] != Role.BUFFER for s in changed):
                changed = [s for s in changed if trace.role[s] != Role.BUFFER]
            over = {(s, version[s] + 1): (s, version[s]) for s in changed}
            for s in changed:
                version[s] += 1
            outs = frozenset([*over, *((s, 0) for s in made)])
            alive = (alive | set(made)) - {s for a, s in freed if a == op}
            self.steps.append(Step(int(trace.cost_ns[op]), ins, outs, over, sum(trace.temporaries[op])))
        stays = {(s, version[s]) for s in alive if trace.becomes[s] >= 0}

        def fixed(value: Value) -> bool:
            return value in self.start or value in stays or trace.role[value[0]] in _KEPT

        for step, there in zip(self.steps, held, strict=True):
            step.must = frozenset(v for v in there if fixed(v))
        self.stays = frozenset(stays)

    def bytes(self, values: frozenset[Value]) -> int:
        return sum(self.nbytes[s] for s, _ in values)

    def ways(self, done: int, op: int, there: frozenset[Value], budget: int) -> Iterator[frozenset[Value]]:
        """What is resident after `op` has run, for each way to run it within the budget. `done`: ops run before."""
        step = self.steps[op]
        if not step.ins <= there:
            return
        may = [w for w, u in step.over.items() if w not in there and (op == done or u not in self.steps[done].must)]
        for k in range(len(may) + 1):
            for taken in itertools.combinations(may, k):
                after = (there | step.outs) - {step.over[w] for w in taken}
                if self.bytes(after) + step.inside <= budget:
                    yield after

    def must(self, done: int) -> frozenset[Value]:
        """What has to be resident when so many ops have run for the first time."""
        return self.steps[done].must if done < len(self.steps) else self.stays


def brute_force(trace: Trace, budget: int) -> int | None:
    """The least cost over all schedules, any op any number of times in any order; None if there is none (Dijkstra)."""
    rules = Rules(trace)
    if rules.bytes(rules.start) > budget:
        return None
    start = (0, rules.start)
    least: dict[tuple[int, frozenset[Value]], int] = {start: 0}
    queue = [(0, 0, start)]
    for tie in itertools.count(1):
        if not queue:
            return None
        cost, _, (done, there) = heapq.heappop(queue)
        if cost > least[done, there]:
            continue
        if done == len(rules.steps):
            return cost
        following = [(0, (done, there - {v})) for v in there - rules.must(done)]
        for op in range(done + 1):
            after_op = done + (op == done)
            for after in rules.ways(done, op, there, budget):
                if after >= rules.must(after_op):
                    following.append((rules.steps[op].cost, (after_op, after)))
        for k, (extra, state) in enumerate(following):
            if cost + extra < least.get(state, 1 << 60):
                least[state] = cost + extra
                heapq.heappush(queue, (cost + extra, tie * 10_000 + k, state))
    raise AssertionError


def check(trace: Trace, budget: int, runs: Sequence[int]) -> None:
    """AssertionError unless the ops can run in this order within the budget. Values go when nothing wants them."""
    rules = Rules(trace)
    there, done = rules.start, 0
    assert rules.bytes(there) <= budget
    for at, op in enumerate(runs):
        step, first = rules.steps[op], op == done
        assert op <= done, f"run {at}: op {op} before op {done}"
        wanted = {v for v in there | step.outs if _wanted(rules, v, runs[at + 1 :])} | rules.must(done + first)
        there &= wanted | step.ins | rules.must(done)
        assert step.ins <= there, f"run {at}: op {op} lacks {step.ins - there}"
        held = rules.must(done)
        taken = {u for w, u in step.over.items() if u not in wanted and w not in there and (first or u not in held)}
        during = rules.bytes((there | step.outs) - taken) + step.inside
        assert during <= budget, f"run {at}: op {op} needs {during} bytes"
        done += first
        there = (there | step.outs) & wanted
        assert rules.must(done) <= there
    assert done == len(rules.steps)


def _wanted(rules: Rules, value: Value, runs: Sequence[int]) -> bool:
    """Whether a run uses the value before one makes it again."""
    for op in runs:
        if value in rules.steps[op].ins:
            return True
        if value in rules.steps[op].outs:
            return False
    return False
