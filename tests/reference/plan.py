"""A plan as specified: a decision for each gap, the requests of an iteration. Only following it is written anew."""

import math
from typing import Any

import numpy as np

from coopsim.base.types import OffloadState
from coopsim.simulate.kernel.state import HOST_AT, OFFLOADABLE
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.planning.make import make
from coopsim.simulate.planning.request import Copying, IterationStart, PlanRequest, copies, offloadable
from coopsim.trace import Trace
from tests.reference.host import Host
from tests.reference.program import Program
from tests.reference.values import Value

STAY, LEAVE, LEAVE_ONCE = range(3)
OUT, LEFT, BACK = range(3)


class Plan:
    """Who leaves, and who goes where; made by the product for these addresses of the start."""

    def __init__(
        self,
        program: Program,
        gaps: list[int],
        until: list[int],
        requests: list[tuple[int, int]],
        copies: list[tuple[int, int, int]],
    ) -> None:
        values = list(program.values())
        self.copies = [(op, what, values[v]) for op, what, v in copies]
        self.begun: list[Value] = []  # to the host, as planned, and to leave when they are whole
        self.requests = [(values[v], address) for v, address in requests]
        self.asked = 0
        self.until = dict(zip(values, until, strict=True))
        self.decisions: dict[Value, list[int]] = {}
        for v in values:
            n = len(v.consumers) + 1
            self.decisions[v], gaps = gaps[:n], gaps[n:]

    def leaves(self, v: Value, serving: int, *, again: bool) -> bool:
        """Whether v, which an op has just used or made for op `serving`, is to go."""
        uses = sum(op.number < serving or (op.number == serving and not again) for op in v.consumers)
        decision = self.decisions[v][uses]
        done = uses == len(v.consumers) and not self.stays(v, serving)
        return done or decision == LEAVE or (decision == LEAVE_ONCE and not again)

    def stays(self, v: Value, serving: int) -> bool:
        """Whether v, for which the program has no more use, is to stay for others."""
        return self.until[v] > serving

    def copies_due(self, serving: int) -> list[tuple[int, Value]]:
        """What is due before this op, and of what: OUT, LEFT or BACK. It is not due again."""
        due = [(what, v) for op, what, v in self.copies if op <= serving]
        self.copies = self.copies[len(due) :]
        return due

    def next_request(self) -> tuple[Value | None, int]:
        """The next value to be asked for, and its address."""
        self.asked += 1
        return self.requests[self.asked - 1] if self.asked <= len(self.requests) else (None, -1)


def plan(
    trace: Trace,
    program: Program,
    policy: Any,
    budget: int,
    addresses: list[int],
    host: Host | None,
    now: int,
    cost_model: Any,
    random: str,
) -> Plan | None:
    """What the product plans for the iteration."""
    request = PlanRequest(trace, policy, budget, options=ReplayOptions(cost_model=cost_model, random=random))
    lowered = request.program
    copying = None
    if host is not None:
        rows = copies(lowered, trace, host.link, state_too=policy.offload_state == OffloadState.YES)
        rows[:, HOST_AT] = [0 if v.on_host else -1 for v in program.values()]
        room = (1 << 61) if host.budget == math.inf else int(host.budget)
        busy = [max(engine.free_at - now, 0) for engine in (host.out, host.back)]
        first = rows[:, OFFLOADABLE] * offloadable(lowered, trace, state_too=False)
        copying = Copying(rows, first, host.link.rate_mb_s, host.link.shared_rate_mb_s, room, *busy)
    made = make(request, IterationStart(np.array(addresses, np.int64), copying))
    if made is None:
        return None
    requests = [tuple(row) for row in made.requests.tolist()]
    away = [tuple(row[:3]) for row in made.away.tolist()]
    return Plan(program, made.decisions.tolist(), made.until.tolist(), requests, away)
