"""Coop's window is the cheapest run of neighbours: every search of a replay against all runs, in exact arithmetic."""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from math import inf

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coopsim.base.types import Action, Role
from coopsim.simulate.policies import find
from coopsim.simulate.replay import replay
from coopsim.trace import Trace, TraceBuilder
from tests.strategies import Dice, dice

GRANULE = 512
POLICIES = ["coop:cost=own", "coop:cost=own,placement=low", "coop:cost=none", "coop:cost=own,recency=nothing"]


@st.composite
def crowded(draw: st.DrawFn) -> tuple[Trace, int]:
    """A trace that fills a memory with results of many sizes, some kept, some freed, and a budget too small for all.

    All ops read the input only: nothing is ever recomputed, and what a search may take is plain to see.
    """
    b = TraceBuilder()
    x = b.storage(GRANULE, Role.INPUT, alive_at_start=True)
    alive: list[int] = []
    bytes_made = GRANULE
    for roll in draw(st.lists(dice(10), min_size=8, max_size=40)):
        made = []
        for _ in range(1 + (roll.roll(4) == 3)):
            role = Role.GRADIENT if roll.roll(8) == 7 else Role.ACTIVATION
            size = GRANULE * (1 if role == Role.GRADIENT else 1 + roll.roll(6))
            bytes_made += size
            made.append(b.storage(size, role))
        name = roll.pick(["aten.relu.default", "aten.mm.default"])
        b.op(name, reads=[x], creates=made, cost_ns=roll.pick([1, 2, 3, 5, 0, 100]))
        alive += made
        if roll.roll(3) == 2:
            b.free(alive.pop(roll.roll(len(alive))))
    share = draw(dice(1)).pick([60, 50, 40, 30, 20])
    return b.build({"model": "crowded"}), bytes_made * share // 100


@dataclass
class Block:
    start: int
    bytes: int
    score: Fraction | float | None  # 0 for a hole, None for what may not go
    storage: int = -1


Run = tuple[Fraction | float, int, int]  # sum of scores, end address, bytes: the least is the one to take


def runs(blocks: list[Block], nbytes: int) -> list[Run]:
    """Every run of neighbours that is large enough and may go."""
    found: list[Run] = []
    for first in range(len(blocks)):
        total: Fraction | float = Fraction(0)
        size = 0
        for block in blocks[first:]:
            if block.score is None:
                break
            total = inf if inf in (total, block.score) else total + block.score
            size += block.bytes
            if size >= nbytes:
                found.append((total, block.start + block.bytes, size))
    return found


class Memory:
    """What is where, from the rows of a schedule; with what a search may know of it."""

    def __init__(self, trace: Trace, policy: str, budget: int) -> None:
        self.trace, self.budget = trace, budget // GRANULE * GRANULE
        self.own_cost = "cost=own" in policy
        self.staleness = "recency=nothing" not in policy
        self.held: dict[int, tuple[int, int]] = {}  # address -> bytes, storage
        self.cost = {s: int(trace.cost_ns[o]) for o in range(trace.n_ops) for s in trace.creates[o]}
        self.last_use: dict[int, int] = {}
        self.clock = 0

    def score(self, storage: int) -> Fraction | float | None:
        if self.trace.role[storage] != Role.ACTIVATION or storage not in self.last_use:
            return None  # fixed, or an output of the op that is about to run
        cost = Fraction(self.cost[storage] if self.own_cost else 1)
        if not self.staleness:
            return cost
        return cost / (self.clock - self.last_use[storage]) if self.clock > self.last_use[storage] else inf

    def blocks(self) -> list[Block]:
        result, at = [], 0
        for start, (nbytes, storage) in sorted(self.held.items()):
            if start > at:
                result.append(Block(at, start - at, Fraction(0)))
            result.append(Block(start, nbytes, self.score(storage), storage))
            at = start + nbytes
        return result + ([Block(at, self.budget - at, Fraction(0))] if at < self.budget else [])


def check_searches(trace: Trace, policy: str, budget: int) -> Counter[str]:
    """Replay, and look at every search: did it take the best run, or rightly find none?"""
    schedule = replay(trace, find(policy), budget, steps=1)
    memory = Memory(trace, policy, budget)
    seen: Counter[str] = Counter()
    before: list[Block] = []  # what the search found, once it has begun
    evicted: list[int] = []
    for action, _, op, storage, _, address, nbytes, _, _ in schedule.rows():
        if action == Action.EVICT:
            before = before or memory.blocks()
            evicted.append(storage)
        elif action == Action.ALLOC:
            if evicted:
                check_one(before, evicted, nbytes, seen)
                before, evicted = [], []
        elif action == Action.COMPUTE:
            memory.last_use |= dict.fromkeys(trace.creates[op], memory.clock)
            memory.clock += int(trace.cost_ns[op])
        if action == Action.ALLOC:
            memory.held[address] = (nbytes, storage)
        elif action in (Action.EVICT, Action.RELEASE, Action.FREE):
            del memory.held[address]
    if schedule.header["outcome"] == "oom":
        seen["oom"] += 1
        op = next(o for o in range(trace.n_ops) if trace.creates[o][-1] not in memory.last_use)
        resident = {storage for _, storage in memory.held.values()}
        wanted = next(s for s in trace.creates[op] if s not in resident)
        assert not runs(memory.blocks(), int(trace.bytes[wanted]))
    return seen


def check_one(blocks: list[Block], evicted: list[int], nbytes: int, seen: Counter[str]) -> None:
    total, end, size = min(runs(blocks, nbytes))
    best = [p.storage for p in blocks if p.storage >= 0 and end - size <= p.start < end]
    seen["best" if evicted == best else "rounded"] += 1
    if evicted != best:  # sums of doubles may be the same where these are not, or the other way round
        taken = sum(float(p.score or 0) for p in blocks if p.storage in evicted)
        assert taken == pytest.approx(float(total), rel=1e-12), (evicted, best)


def test_every_search_takes_the_cheapest_run() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=600, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(crowded(), dice(1))
    def check(case: tuple[Trace, int], roll: Dice) -> None:
        trace, budget = case
        seen.update(check_searches(trace, roll.pick(POLICIES), budget))

    check()
    assert seen["best"] > 2000
    assert seen["rounded"] < 0.01 * seen["best"]
    assert seen["oom"] > 10, seen
