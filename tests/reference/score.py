"""What losing a value costs, by the policy."""

import math
from typing import Any

from coopsim.base.types import Cost, Divisor, Recency
from tests.reference.memory import Arena, Counter
from tests.reference.values import Value


class Scorer:
    """score = cost of loss / recency / size. It remembers the random number it drew last, and what it said of costs."""

    def __init__(self, policy: Any, memory: Arena | Counter) -> None:
        self.policy, self.memory = policy, memory
        self.random = 20231210
        self.said: dict[Value, float] = {}
        self.host: Any = None  # where the policy offloads

    def score(self, v: Value, clock: int, running: int, step_clock: int) -> float:
        """`running` is the op of the program that is served; `step_clock` the clock when the step began."""
        self.said[v] = cost = self.cost_of_loss(v)
        recency = self.recency(v, clock, running, step_clock)
        return math.inf if recency == 0 else cost / recency / self.size(v)

    def cost_of_loss(self, v: Value) -> float:
        """Of the cheaper way."""
        if self.host is None or self.policy.cost in (Cost.NONE, Cost.RANDOM):
            return self.cost_of_recomputing(v)
        projected = self.policy.cost == Cost.PROJECTED
        costs: list[float] = []
        if self.host.can_recompute(v):
            costs.append(back(v) if projected else self.cost_of_recomputing(v))
        if self.host.can_offload(v):
            costs.append(self.host.price(v))
        return float(forward(v)) * float(min(costs)) * float(memory(v)) if projected else float(min(costs))

    def cost_of_recomputing(self, v: Value) -> float:
        match self.policy.cost:
            case Cost.NONE:
                return 1.0
            case Cost.OWN:
                return float(v.own_cost)
            case Cost.SET:
                return float(sum(max(x.node.root().cost, x.own_cost) for x in v.missing_relatives()) + v.own_cost)
            case Cost.CLASSES:
                return float(v.own_cost + sum(c.cost for c in v.relatives_classes()))
            case Cost.NEIGHBOURHOOD:
                return float(sum(x.own_cost for x in [v, *ancestors(v), *descendants(v)]))
            case Cost.ANCESTORS:
                return float(sum(x.own_cost for x in [v, *ancestors(v)]))
            case Cost.PROJECTED:
                return float(forward(v)) * float(back(v)) * float(memory(v))
            case Cost.RANDOM:
                self.random = 48271 * self.random % 2147483647
                return float(self.random)
        raise ValueError(self.policy.cost)

    def recency(self, v: Value, clock: int, running: int, step_clock: int) -> float:
        match self.policy.recency:
            case Recency.STALENESS:
                return clock - v.last_use
            case Recency.NEXT_USE:
                return min((op.number - running for op in v.consumers if op.number > running), default=math.inf)
            case Recency.NOTHING:
                return 1
            case Recency.DAMPED:
                staleness, elapsed = clock - v.last_use, clock - step_clock
                return min(staleness, 0.2 * elapsed) + 0.1 * (staleness + elapsed)
        raise ValueError(self.policy.recency)

    def size(self, v: Value) -> int:
        match self.policy.divisor:
            case Divisor.NOTHING:
                return 1
            case Divisor.BYTES:
                return v.bytes
            case Divisor.HOLE:
                return self.memory.hole_left_by(v)
        raise ValueError(self.policy.divisor)


def ancestors(v: Value) -> set[Value]:
    """Evicted ones, reached through evicted ones."""
    parents = v.evicted_parents()
    return set(parents).union(*map(ancestors, parents))


def descendants(v: Value) -> set[Value]:
    children = v.evicted_children()
    return set(children).union(*map(descendants, children))


# Path by path: who is reached in two ways counts twice.


def forward(v: Value) -> int:
    return 1 + sum(map(forward, v.evicted_children()))


def back(v: Value) -> int:
    return v.own_cost + sum(map(back, v.evicted_parents()))


def memory(v: Value) -> int:
    return v.bytes + sum(map(memory, v.evicted_parents()))
