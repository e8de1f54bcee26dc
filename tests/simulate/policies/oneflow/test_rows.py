"""Every action of the authors' program, where COOPSIM_ONEFLOW_DATA names a folder of its runs. They carry no licence.

The folder has summary.jsonl, runs.jsonl, budgets.jsonl, copy10.jsonl and actions/. Where the program crashed there is
nothing to compare."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from coopsim.simulate.replay import replay
from tests.simulate.policies.oneflow.runs import POLICIES, budget_of, digest, figures, lines, run, trace_of

DATA = Path(os.environ.get("COOPSIM_ONEFLOW_DATA") or "/nowhere")
CONFIGURATIONS = {"coop1": ("coop", 1), "coop2": ("coop", 2), "dtr": ("dtr", 1), "dte": ("dte", 1)}
pytestmark = pytest.mark.skipif(
    not (DATA / "summary.jsonl").exists(), reason="COOPSIM_ONEFLOW_DATA names no folder of runs of Coop's own program"
)


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def test_every_row() -> None:
    wrong = []
    compared = 0
    for r in records("summary.jsonl"):
        if r["outcome"] == "segv":
            continue
        policy = POLICIES[r["policy"], r["group_num"]]
        schedule = run(trace_of(r["trace"]), policy, r["budget_bytes"])
        ours = lines(schedule)
        compared += len(ours)
        actions = DATA / "actions" / f"{r['trace']}.{r['policy']}-g{r['group_num']}.{r['percent']}.csv.gz"
        if actions.exists():
            with gzip.open(actions, "rt") as file:
                theirs = file.read().splitlines()[1:]
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
            if at is not None:
                wrong.append((r["trace"], policy, r["percent"], at, ours[at], theirs[at]))
        if (digest(ours), schedule.header["outcome"]) != (r["rows_hash"], r["outcome"]):
            wrong.append((r["trace"], policy, r["percent"], schedule.header["outcome"], r["outcome"]))
    assert wrong == []
    assert compared > 100_000


def test_every_run() -> None:
    wrong = []
    for r in records("runs.jsonl"):
        theirs = r["authors"]
        if theirs["outcome"] == "segv":
            continue
        ours = figures(run(trace_of(r["trace"]), POLICIES[CONFIGURATIONS[r["which"]]], r["budget"]))
        names = {"outcome": "outcome", "evictions": "evictions", "recomputes": "recomputes", "clock_ns": "clock"}
        expected = {mine: theirs[name] for mine, name in names.items()}
        if theirs["outcome"] == "failed":  # what it finds after evicting a window is too small
            expected["outcome"] = "oom"
        if ours != expected:
            wrong.append((r["trace"], r["which"], r["frac"], ours, theirs))
    assert wrong == []


def test_every_budget() -> None:
    """In steps of 1 % of the peak: outcome and overhead."""
    wrong = []
    for r in records("budgets.jsonl"):
        trace = trace_of(r["trace"])
        for percent, theirs in r["A"].items():
            schedule = run(trace, POLICIES[CONFIGURATIONS[r["which"]]], budget_of(trace, int(percent)))
            ours = [schedule.header["outcome"], schedule.header["total_cost_ns"] / int(trace.cost_ns.sum())]
            if ours[0] != theirs[0] or (ours[0] == "ok" and ours[1] != pytest.approx(theirs[1], rel=1e-12)):
                wrong.append((r["trace"], r["which"], percent, ours, theirs))
    assert wrong == []


def test_ten_steps_with_copies() -> None:
    """The baselines as they were run: what an op makes is copied, what an optimizer updates is not."""
    wrong = []
    for r in records("copy10.jsonl"):
        trace = trace_of(r["trace"])
        for percent, theirs in r["A"].items():
            budget = budget_of(trace, int(percent))
            header = replay(trace, f"{r['which']}-oneflow", budget, steps=10).header
            overhead = header["total_cost_ns"] / (10 * int(trace.cost_ns.sum()) // trace.n_steps)
            outcome, *cost = theirs if isinstance(theirs, list) else [theirs]
            if header["outcome"] != outcome or (outcome == "ok" and overhead != pytest.approx(cost[0], rel=1e-9)):
                wrong.append((r["trace"], r["which"], percent, header["outcome"], overhead, theirs))
    assert wrong == []
