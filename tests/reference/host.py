"""Copies to the host and back: docs/replay.md."""

import math
from dataclasses import dataclass, field
from typing import Any

from coopsim.base.types import Cost, Lose, OffloadState
from coopsim.cards.link import Link
from tests.reference.program import KEPT_ROLES, Program
from tests.reference.score import Scorer, back
from tests.reference.values import Value


@dataclass
class Engine:
    """Copies in one direction, one after the other."""

    free_at: int = 0

    def copy(self, nbytes: int, now: int, other: "Engine", link: Link) -> int:
        """Another copy. Returns when it ends."""
        start = max(now, self.free_at)
        alone = link.latency_ns + math.ceil(nbytes * 1000 / link.rate_mb_s)
        busy = max(0, other.free_at - start)
        rate, shared = link.rate_mb_s, link.shared_rate_mb_s
        slow = -(-alone * rate // shared) if shared else math.inf
        self.free_at = start + (int(slow) if slow <= busy else busy + alone - busy * shared // rate)
        return self.free_at


@dataclass
class Host:
    """What is on the host, and until when it is copied."""

    policy: Any
    link: Link
    budget: float
    offloadable: set[Value]
    ended: dict[Value, int] = field(default_factory=dict)  # of each copy here: when it is whole
    fetched: dict[Value, int] = field(default_factory=dict)  # of each value fetched: when the copy ends
    out: Engine = field(default_factory=Engine)
    back: Engine = field(default_factory=Engine)

    @property
    def used(self) -> int:
        return sum(v.bytes for v in self.ended)

    def can_recompute(self, v: Value) -> bool:
        return not v.non_evictable and (self.policy.lose == Lose.EITHER or not v.live)

    def can_offload(self, v: Value) -> bool:
        spare = sum(u.bytes for u in self.ended if u.resident)
        room = v.live and self.used - spare + v.bytes <= self.budget
        return v in self.offloadable and (v in self.ended or room)

    def can_go(self, v: Value) -> bool:
        """It is not in use, and there is a way to lose it now."""
        return v.pins == 0 and not v.held and (self.can_recompute(v) or self.can_offload(v))

    def price(self, v: Value) -> int:
        alone = Engine().copy(v.bytes, 0, Engine(), self.link)
        return alone if v in self.ended else 2 * alone

    def is_recomputed(self, v: Value, scorer: Scorer) -> bool:
        """Which way it is lost."""
        if not self.can_recompute(v) or not self.can_offload(v):
            return self.can_recompute(v)
        match self.policy.cost:
            case Cost.NONE | Cost.RANDOM:
                cost: float = v.own_cost
            case Cost.PROJECTED:
                cost = back(v)
            case _:
                cost = scorer.cost_of_recomputing(v)
        return cost <= self.price(v)

    def in_the_way(self, v: Value) -> list[Value]:
        """The copies that make room for one of v."""
        found: list[Value] = []
        for u in sorted(self.ended, key=lambda u: u.number):
            if self.used - sum(w.bytes for w in found) + v.bytes <= self.budget:
                break
            if u.resident:
                found.append(u)
        return found


def offloadable(program: Program, policy: Any) -> set[Value]:
    """All that only an op's being run again would not bring back; with a switch also what is there to stay."""
    found = set()
    for v in program.values():
        stays = v.producer is None or v.role in KEPT_ROLES or v in program.handed_on
        if v.storage >= 0 and (policy.offload_state == OffloadState.YES or not stays):
            found.add(v)
    return found
