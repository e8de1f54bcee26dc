"""Schedules made by hand: from rows, and from the lines that `Schedule.text` writes; and what must come out as one."""

import re
from typing import Any

import numpy as np

from coopsim.base.types import Action, Outcome
from coopsim.simulate.policies import Policy
from coopsim.simulate.replay import replay
from coopsim.study.validate import validate
from coopsim.trace import Trace
from coopsim.trace.schedule import COLUMNS, Schedule
from tests import reference

UNIT = 512  # bytes: a column in the pictures
ACTIONS = {a.name.lower(): a for a in Action}


def parse(text: str, trace: Trace, /, **header: Any) -> Schedule:
    """A schedule from lines as `Schedule.text` writes them; step and time follow from the ops."""
    rows, time_ns, of_op, round_ = [], 0, 0, 0
    for line in filter(None, text.splitlines()):
        verb, name, *rest = line.split()
        action = ACTIONS[verb]
        if name == "op":
            time_ns, of_op = time_ns + of_op, 0
            op = int(rest[0])
            if action == Action.COMPUTE and op == 0 and rows:
                round_ += any(row[0] == Action.COMPUTE for row in rows)
            rows.append((action, round_, op, -1, -1, -1, 0, time_ns))
            of_op = int(trace.cost_ns[op]) if op < trace.n_ops else 0
            continue
        kind, owner, version = re.fullmatch(r"([st])(\d+)\.(\d+)", name).groups()  # type: ignore[union-attr]
        storage, op = (int(owner), -1) if kind == "s" else (-1, int(owner))
        if action != Action.MOVE or version == "0":  # a move to a version above 0 is part of its op
            time_ns, of_op = time_ns + of_op, 0
        rows.append((action, round_, op, storage, int(version), int(rest[1]), int(rest[2]), time_ns))
    return of_rows([(*row, 0) for row in rows], trace, **header)


def of_rows(rows: list[tuple[int, ...]], trace: Trace, /, **header: Any) -> Schedule:
    columns = dict(zip(("action", *COLUMNS), np.array(rows, np.int64).reshape(-1, 9).T, strict=True))
    usual = {"trace": trace.content_hash, "allocator": "arena", "granule": 512, "budget_bytes": 4000, "steps": 2}
    return Schedule(**columns, header=usual | {"outcome": "ok", "policy": "by hand"} | header)


def expect(trace: Trace, policy: Policy, units: int, text: str, outcome: str = Outcome.OK, **how: Any) -> None:
    """The reference, the core and the judge agree that this is the schedule."""
    how = {"steps": 1} | how
    got, rows = reference.replay(trace, policy, "arena", units * UNIT, **how)
    schedule = of_rows(rows, trace, budget_bytes=units * UNIT, steps=how["steps"], outcome=got)
    words = (line.split(maxsplit=1) for line in text.strip().splitlines())
    expected = "".join(f"{i:04d} {verb:<9} {rest}\n" for i, (verb, rest) in enumerate(words))
    assert (schedule.text(), got) == (expected, outcome)
    assert validate(schedule, trace) == []
    core = replay(trace, policy, units * UNIT, **how)
    assert (core.text(), core.header["outcome"]) == (expected, outcome)
