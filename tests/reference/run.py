"""The replay: op by op, iteration by iteration."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from coopsim.base.types import (
    Action,
    Cost,
    Dead,
    Divisor,
    InPlace,
    Lose,
    Node,
    Outcome,
    Phase,
    Placement,
    Planning,
    Recency,
    Release,
    Search,
)
from coopsim.cards.link import Link
from coopsim.trace import Trace
from tests.reference.counting import References
from tests.reference.host import Host, offloadable
from tests.reference.memory import Arena, Counter
from tests.reference.plan import BACK, LEFT, OUT, Plan, plan
from tests.reference.preferred import Preferred
from tests.reference.program import GRANULE, Program
from tests.reference.score import Scorer
from tests.reference.search import least, window, window_published
from tests.reference.values import Node as UnionFind
from tests.reference.values import Op, Value

Row = tuple[int, int, int, int, int, int, int, int, int]


class Ended(Exception):  # noqa: N818
    """The replay ends here, with this outcome."""


class Replay:
    """The state of a replay, and the rows it leaves."""

    def __init__(self, program: Program, policy: Any, memory: Arena | Counter, near_tie: Callable[[], None]) -> None:
        self.program, self.policy, self.memory, self.near_tie = program, policy, memory, near_tie
        self.scorer = Scorer(policy, memory)
        self.rows: list[Row] = []
        self.clock = 0
        self.step_clock = 0  # when the step began
        self.total = 0
        self.step = 0
        self.choices_for: Callable[[int], Any] = lambda _: policy  # of a step
        self.plan_for: Callable[[list[int], Host | None, int], Plan | None] | None = None  # at the start, at this time
        self.following: Plan | None = None  # that is being followed
        self.offline = False  # whether the first iteration has a plan, too
        self.known_preferred = Preferred(memory.budget, program.trace.name) if isinstance(memory, Arena) else None
        self.serving = -1  # the op of the program that runs, or for which others run again
        self.missing: set[Value] = set()  # unsaved inputs that were, when the op that is served began
        self.references: References | None = None
        self.host: Host | None = None  # where the policy offloads

    # Rows

    def log(self, action: Action, op: int, value: Value | None = None, at: Value | None = None) -> None:
        """`at`: whose address it is, if not the value's own."""
        what = (-1, -1, -1, 0)
        if value is not None:
            where = at or value
            what = (*value.name, self.memory.address(where) if where.resident else -1, value.bytes)
        self.rows.append((int(action), self.step, op, *what, self.total, 0))

    def drop(self, value: Value, action: Action, op: int) -> None:
        self.discard(value, op)
        self.log(action, op, value)
        self.memory.free(value)
        value.resident = False
        if action in (Action.EVICT, Action.RELEASE):
            value.lost()

    # The host

    def wait(self, until: int) -> None:
        self.total = max(self.total, until)

    def discard(self, value: Value, op: int) -> None:
        """The host's copy goes, if there is one."""
        if self.host is None or not value.on_host:
            return
        self.log(Action.DISCARD, op, value)
        del self.host.ended[value]
        value.on_host = False
        if not value.resident and not value.non_evictable:
            value.lost()

    def lose(self, value: Value, op: int) -> bool:
        """One that a search has chosen. False if it cannot be lost by now."""
        if self.host is None:
            self.drop(value, Action.EVICT, op)
            return True
        if not self.host.can_go(value):
            return False
        if self.host.is_recomputed(value, self.scorer):
            self.drop(value, Action.EVICT, op)
            return True
        if not value.on_host:
            self.offload(value, op)
        self.wait(self.host.ended[value])
        self.evict_to_host(value, op)
        return True

    def offload(self, value: Value, op: int) -> None:
        assert self.host
        for u in self.host.in_the_way(value):
            self.discard(u, op)
        self.host.ended[value] = self.host.out.copy(value.bytes, self.total, self.host.back, self.host.link)
        value.on_host = True
        self.log(Action.OFFLOAD, op, value)

    def evict_to_host(self, value: Value, op: int) -> None:
        self.log(Action.EVICT, op, value)
        self.memory.free(value)
        value.resident = False

    def fetch(self, value: Value, op: Op) -> None:
        assert self.host
        self.allocate(value, value.producer, op.number)
        self.host.fetched[value] = self.host.back.copy(value.bytes, self.total, self.host.out, self.host.link)
        self.log(Action.FETCH, op.number, value)

    def copy_by_plan(self, plan: Plan, op: Op) -> None:
        assert self.host
        due = plan.copies_due(op.number)
        for v in [v for what, v in due if what == OUT]:
            if v.resident and v.pins == 0 and not v.held and self.host.can_offload(v):
                if not v.on_host:
                    self.offload(v, op.number)
                plan.begun.append(v)
        for v in [v for what, v in due if what == LEFT]:
            while v in plan.begun:
                first = plan.begun.pop(0)
                if first.resident and first.on_host:
                    self.wait(self.host.ended[first])
                    self.evict_to_host(first, op.number)
        while plan.begun:
            v = plan.begun[0]
            if v.resident and v.on_host:
                if self.host.ended[v] > self.total:
                    break
                self.evict_to_host(v, op.number)
            plan.begun.pop(0)
        for v in [v for what, v in due if what == BACK]:
            if v in plan.begun:
                plan.begun.remove(v)
            if v.on_host and not v.resident:
                self.fetch(v, op)
                if not self.following:
                    return

    # Finding room

    def allocate(self, value: Value, op: Op | None, number: int) -> None:
        """`op` makes it, or has made it; `number` is the one that runs."""
        workspace = value.storage < 0 and self.policy.placement != Placement.TWO_ENDED_OPS
        cheap = workspace or op is None or not op.expensive
        address = self.preferred.address(value) if self.preferred else None
        highest = self.preferred is not None and value.non_evictable and not self.preferred.few
        while not (self.as_planned(value) or self.memory.allocate(value, cheap, address, highest)):
            lost = [self.lose(victim, number) for victim in self.victims(value.bytes)]
            if not any(lost):
                raise Ended(Outcome.OOM)
        value.resident = True
        self.log(Action.ALLOC, number, value)

    @property
    def preferred(self) -> Preferred | None:
        return self.known_preferred if self.policy.placement == Placement.PREFERRED else None

    def as_planned(self, value: Value) -> bool:
        if self.following:
            planned, address = self.following.next_request()
            assert isinstance(self.memory, Arena)
            if planned is value and self.memory.allocate_at(value, address):
                return True
            self.following = None
        return False

    def victims(self, nbytes: int) -> list[Value]:
        if isinstance(self.memory, Arena):
            if self.policy.search in (Search.WINDOW, Search.WINDOW_THRIFTY):
                thrifty = self.policy.search == Search.WINDOW_THRIFTY
                found = window(self.memory.searched(), nbytes, self.score, self.can_go, self.near_tie, thrifty=thrifty)
                if self.preferred:
                    self.preferred.pass_by(self.memory.in_order(), self.scorer.said, self.can_go)
                return found
            if self.policy.search == Search.WINDOW_PUBLISHED:
                return window_published(self.memory.searched(), nbytes, self.score, self.can_go)
        return least(self.memory.in_order(), self.score, self.can_go)

    def can_go(self, value: Value) -> bool:
        return self.host.can_go(value) if self.host else value.can_go

    def score(self, value: Value) -> float:
        return self.scorer.score(value, self.clock, self.serving, self.step_clock)

    # Running ops

    def plan(self, op: Op) -> list[Op]:
        """The op and, transitively, the ops that make what is missing."""
        plan = [op]
        for p in plan:
            for u in p.inputs:
                if u.missing:
                    if u.producer is None:
                        raise Ended(Outcome.LOST)
                    if u.producer not in plan:
                        plan.append(u.producer)
        return plan

    def run(self, op: Op) -> None:
        self.serving = op.number
        self.missing = set()
        if self.following and self.host:
            self.copy_by_plan(self.following, op)
        for p in self.plan(op):
            for u in p.inputs:
                u.pins += 1
                if u.missing and (not u.saved or u.updated):
                    self.missing.add(u)
        self.run_after_inputs(op, Action.COMPUTE)

    def run_after_inputs(self, op: Op, action: Action) -> None:
        for u in op.inputs:
            if not u.resident and u.on_host:
                self.fetch(u, op)
            elif not u.resident:
                assert u.producer
                self.run_after_inputs(u.producer, Action.RECOMPUTE)
        self.run_one(op, action)

    def run_one(self, op: Op, action: Action) -> None:
        takes_over: dict[Value, Value] = {}
        for w in op.outputs + op.temporaries:
            w.pins += 1
            if w.resident:
                continue
            once = self.policy.in_place == InPlace.FIRST_RUN and action == Action.RECOMPUTE
            if w.before and w.in_place and not once and w.before.pins == 1 and not w.before.held:
                takes_over[w] = w.before
            else:
                self.allocate(w, op, op.number)
        if self.host:
            self.wait(max([self.host.fetched.get(u, 0) for u in op.inputs], default=0))
        self.log(action, op.number)
        for w, u in takes_over.items():
            self.log(Action.MOVE, op.number, w, at=u)
        now = self.clock
        self.clock += op.decision_cost
        self.total += op.cost
        unsaved = self.policy.dead == Dead.UNSAVED
        if unsaved:
            self.end_temporaries(op)
            self.end_inputs(op, takes_over)
        for u in op.inputs:
            u.last_use = now
        for w in op.outputs:
            if w in takes_over:
                self.take_over(w, takes_over[w], action)
            w.last_use = now
            if not w.non_evictable:
                w.back()
            if action == Action.COMPUTE:
                w.live = w.made = True
        if not unsaved:
            self.end_temporaries(op)
        for v in op.outputs:
            v.pins -= 1
            self.drop_if_unwanted(v, op)
        if not unsaved:
            self.end_inputs(op, {})
        for v in op.outputs + op.inputs if self.following else []:
            if v.can_go and v.resident:
                assert self.following
                if self.following.leaves(v, self.serving, again=action == Action.RECOMPUTE):
                    self.drop(v, Action.EVICT, op.number)

    def take_over(self, w: Value, u: Value, action: Action) -> None:
        """w lies where u did, the version before it."""
        if w.producer:
            self.discard(u, w.producer.number)
        self.memory.replace({u: w})
        u.resident, w.resident = False, True
        if action == Action.COMPUTE:
            u.live, u.updated = False, True
            if self.policy.node == Node.STORAGE and not w.non_evictable:
                w.node, u.node = u.node, UnionFind(0)

    def end_temporaries(self, op: Op) -> None:
        for t in op.temporaries:
            self.drop(t, Action.FREE, op.number)
            t.pins -= 1

    def end_inputs(self, op: Op, taken_over: dict[Value, Value]) -> None:
        for v in op.inputs:
            v.pins -= 1
            if v in taken_over.values():
                continue
            if not v.live and not self.following:
                self.try_banish(v, op.number)
            self.drop_if_unwanted(v, op)

    def drop_if_unwanted(self, v: Value, op: Op) -> None:
        if not v.can_go or not v.resident or self.following:
            return
        if (v.banished or v.gone) and not v.live:
            self.drop(v, Action.FREE, op.number)
        elif self.unwanted(v):
            self.missing.discard(v)
            self.drop(v, Action.RELEASE, op.number)

    def unwanted(self, v: Value) -> bool:
        match self.policy.dead:
            case Dead.UNSAVED:
                return v in self.missing
            case Dead.RELEASE:
                return not v.live
            case Dead.NEEDED:
                return not v.live and not v.needed
        return False

    def try_banish(self, v: Value, number: int) -> None:
        """For good: nothing evicted was made from it, and nothing that was may be evicted from now on."""
        if self.policy.release != Release.BANISH or v.non_evictable or v.banished or v.pins or v.evicted_children():
            return
        for op in v.consumers:
            for w in op.outputs:
                w.held = not w.non_evictable and not w.banished
        v.held = False
        if v.resident:
            self.drop(v, Action.FREE, number)
        else:
            v.back()
        v.banished = True

    # Iterations

    def choose(self, policy: Any) -> None:
        self.policy = self.scorer.policy = policy
        if isinstance(self.memory, Arena):
            self.memory.placement = policy.placement

    def free_due(self, after: int) -> None:
        for v in self.program.due.get(after, ()):
            v.live = False
            if not self.program.until_gone(v):
                self.program_drops(v, after)
            for u in self.references.program_drops(v) if self.references else []:
                self.nothing_needs(u, after)

    def nothing_needs(self, v: Value, after: int) -> None:
        self.discard(v, after)
        if v.resident:
            self.drop(v, Action.FREE, after)
            if not v.non_evictable:
                v.join_sets()
        else:
            v.leave_class()
        v.gone = True

    def program_drops(self, v: Value, after: int) -> None:
        self.discard(v, after)
        if v.resident and v.non_evictable:
            self.drop(v, Action.FREE, after)
        elif v.non_evictable:
            return
        elif self.following:
            if v.resident and not self.following.stays(v, self.serving):
                self.drop(v, Action.RELEASE, after)
        elif self.policy.release == Release.NEEDED:
            for u in [v] if v.resident else v.resident_ancestors() if v.made else []:
                if u.can_go and not u.live and not u.needed:
                    self.drop(u, Action.RELEASE, after)
        elif v.resident and self.policy.release in (Release.EAGER, Release.COUNTED):
            self.drop(v, Action.RELEASE, after)
        else:
            self.try_banish(v, after)

    def start(self) -> None:
        for v in self.program.initial:
            v.live = True
            self.allocate(v, None, -1)

    def end_step(self) -> None:
        if self.preferred:
            self.preferred.end_step()

    def end_round(self) -> None:
        for v in self.program.values():
            if not v.live:
                self.discard(v, -1)
            if v.resident and not v.live:
                self.drop(v, Action.FREE, -1)
        first = {v.storage: v for v in self.program.initial}
        heirs = {v: first[h] for v, h in self.program.handed_on.items()}
        self.memory.replace(heirs)
        were = {v: (v.resident, v.on_host) for v in heirs}
        for v in heirs:
            v.resident = v.live = v.on_host = False
        if self.host:
            self.host.ended = {heirs[v]: end for v, end in self.host.ended.items()}
            self.host.fetched = {}
        for v, heir in heirs.items():
            heir.resident, heir.on_host = were[v]
            heir.live = True
            if heir is not v and heir.resident:
                self.log(Action.MOVE, -1, heir)
        for v in self.program.values():
            v.forget()

    def go(self, steps: int, overhead_limit: float) -> None:
        """All steps, iteration after iteration; raises Ended if it cannot go on."""
        steps_a_round = self.program.ops[-1].step + 1
        cost_of_step = [sum(op.cost for op in self.program.ops if op.step == k) for k in range(steps_a_round)]
        for v in self.program.values():
            v.forget()
        base = 0
        self.start()
        for first_step in range(0, steps, steps_a_round):
            self.step = first_step
            if self.plan_for and (first_step > 0 or self.offline) and all(v.resident for v in self.program.initial):
                self.following = self.plan_for(
                    [self.memory.address(v) for v in self.program.initial], self.host, self.total
                )
            if self.policy.release == Release.COUNTED:
                self.references = References(list(self.program.values()))
            self.free_due(-1)
            for op in self.program.ops:
                if first_step + op.step >= steps:
                    return
                if op.number > 0 and first_step + op.step > self.step:
                    self.end_step()
                if op.number == 0 or first_step + op.step > self.step:
                    self.step = first_step + op.step
                    self.step_clock = self.clock
                    self.choose(self.choices_for(self.step))
                    base += cost_of_step[op.step]
                self.run(op)
                if self.references:
                    self.references.ran(op)
                if self.total > overhead_limit * base:
                    raise Ended(Outcome.THRASH)
                self.free_due(op.number)
            self.following = None
            self.end_step()
            self.end_round()


def replay(
    trace: Trace,
    policy: Any,
    allocator: str,
    budget: int,
    steps: int,
    cost_model: str = "cost",
    overhead_limit: float = 10.0,
    random: str = "recompute",
    link: Link | None = None,
    host_memory: float = math.inf,
    near_tie: Callable[[], None] = lambda: None,
) -> tuple[str, list[Row]]:
    """The outcome and rows of a schedule; visits are 0. `near_tie` is called where two windows cost nearly the same."""
    granule = GRANULE[allocator]
    budget = budget // granule * granule
    plans = policy.planning != Planning.NONE and allocator == "arena"
    anew: list[int] = []  # steps that begin anew, as often as they do
    while True:
        first = first_tries(policy)[anew.count(0)]
        program = Program(trace, first, granule, cost_model, random == "keep")
        memory = Counter(budget) if allocator == "counter" else Arena(budget, first.placement, first.small_area)
        state = Replay(program, first, memory, near_tie)
        if policy.lose != Lose.RECOMPUTE:
            assert link
            for number, v in enumerate(program.values()):
                v.number = number
            state.host = state.scorer.host = Host(policy, link, host_memory, offloadable(program, policy))
        state.choices_for = lambda step, first=first: later_tries(first)[sum(0 < k <= step for k in anew) % 4]
        state.offline = policy.planning == Planning.OFFLINE
        if plans and (trace.n_steps == 1 or state.offline):
            state.plan_for = lambda at, host, now, program=program: plan(
                trace, program, policy, budget, at, host, now, cost_model, random
            )
        try:
            state.go(steps, overhead_limit)
        except Ended as stop:
            tries = 4 if state.step else 5
            served = range(state.serving + 1)
            updates = any(
                trace.phase[op] == Phase.OPTIMIZER and trace.step[op] == trace.step[state.serving] for op in served
            )
            if not plans or stop.args[0] != Outcome.OOM or updates or anew.count(state.step) + 1 == tries:
                return str(stop), state.rows
            anew.append(state.step)
        else:
            return str(Outcome.OK), state.rows


def first_tries(policy: Any) -> list[Any]:
    """The policies that the first step is tried with."""
    coop = {"cost": Cost.SET, "divisor": Divisor.NOTHING, "recency": Recency.STALENESS}
    coop |= {"search": Search.WINDOW, "placement": Placement.TWO_ENDED}
    return [policy, dataclasses.replace(policy, **coop), *later_tries(policy)[1:]]


def later_tries(policy: Any) -> list[Any]:
    """Those of a later step: with the other windows, the other placement, both."""
    other = {
        "search": Search.WINDOW_THRIFTY if policy.search == Search.WINDOW else Search.WINDOW,
        "placement": Placement.PREFERRED if policy.placement == Placement.TWO_ENDED else Placement.TWO_ENDED,
    }
    return [
        dataclasses.replace(policy, **{k: other[k] for k in keys}) for keys in ((), ("search",), ("placement",), other)
    ]
