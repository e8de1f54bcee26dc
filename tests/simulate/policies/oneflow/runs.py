"""Replays as the authors' program was run: one workspace per op, updates in place, all steps of the trace once."""

import dataclasses
import hashlib
from functools import cache

from coopsim.base.types import Action
from coopsim.simulate.replay import replay
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes, round_up
from coopsim.trace.ragged import Ragged
from coopsim.trace.schedule import Schedule
from coopsim.trace.synth import make
from tests.proof_traces import load_of_the_proof

POLICIES = {  # our policy for theirs and ONEFLOW_REMAT_GROUP_NUM
    ("coop", 1): "coop-oneflow:placement=low",
    ("coop", 2): "coop-oneflow",
    ("dtr", 1): "dtr-oneflow:in_place=first_run",
    ("dte", 1): "dte-oneflow:in_place=first_run",
}
PERCENTS = (90, 70, 50, 40)


@cache
def trace_of(name: str) -> Trace:
    """The trace with one temporary per op, as OneFlow has one workspace."""
    trace = make(name) if name.startswith("synth:") else load_of_the_proof(name)
    workspaces = [[sum(round_up(n, 512) for n in row)] if any(row) else [] for row in trace.temporaries]
    none: list[list[int]] = [[] for _ in range(trace.n_ops)]
    return dataclasses.replace(trace, temporaries=Ragged.of(workspaces), requests=Ragged.of(none))


def budget_of(trace: Trace, percent: int) -> int:
    return int(peak_bytes(trace, 512) * percent / 100) // 512 * 512


def run(trace: Trace, policy: str, budget: int) -> Schedule:
    return replay(trace, policy, budget, steps=trace.n_steps)


def lines(schedule: Schedule) -> list[str]:
    """The actions up to the last op that began, without moves: action, op, storage, version, address, bytes."""
    found = []
    end = 0
    for action, _, op, storage, version, address, nbytes, *_ in schedule.rows():
        if action != Action.MOVE:
            runs = action in (Action.COMPUTE, Action.RECOMPUTE)
            word = Action(action).name.lower()
            found.append(f"{word},{op if runs else -1},{storage},{version},{address},{nbytes}")
        if action == Action.COMPUTE:
            end = len(found)
    return found[:end]


def digest(rows: list[str]) -> str:
    return hashlib.blake2b("\n".join(rows).encode(), digest_size=16).hexdigest()


def figures(schedule: Schedule) -> dict[str, int | str]:
    """Outcome, forced evictions, ops run again, the clock at the end."""
    h = schedule.header
    return {
        "outcome": h["outcome"],
        "evictions": h["evictions"],
        "recomputes": h["recomputes"],
        "clock_ns": h["total_cost_ns"],
    }
