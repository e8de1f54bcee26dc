"""What a plan costs, against the proven optimum of small traces."""

import json

import pytest

from coopsim.simulate.policies import find
from coopsim.study.optimum.gap import planned_step
from coopsim.trace.measure import peak_bytes
from experiments.optimum.planned_gap import optima, trace_of

CASES = [
    (row.trace, row.memory_ratio, row.optimum) for row in optima().itertuples() if row.trace not in ("mlp", "bert")
]


@pytest.mark.parametrize(("name", "ratio", "optimum"), CASES)
def test_a_planned_step_attains_the_optimum(name: str, ratio: float, optimum: float) -> None:
    """No schedule is cheaper, so this is also a check of the bound: a plan below it would show a fault of either."""
    trace = trace_of(name)
    outcome, overhead = planned_step(trace, "foresight", int(ratio * peak_bytes(trace)))
    assert (outcome, overhead) == ("ok", pytest.approx(optimum, abs=2e-6))


def test_who_plans() -> None:
    assert find("foresight").plans
    assert not find("thrift").plans


def test_no_step_in_too_little() -> None:
    assert planned_step(trace_of("chain:8"), "foresight", 4096) == ("oom", None)


def test_gap_shows_it(coopsim) -> None:
    answer = coopsim("gap", "synth:chain:8", "--budget", "60%", "--policy", "coop,foresight")
    line = next(line for line in answer.out.splitlines() if line.startswith("foresight, planned"))
    assert line.split()[2:6] == ["18.10", "%", "0.00", "points"]
    assert "coop, planned" not in answer.out
    rows = {
        row["policy"]: row
        for row in json.loads(coopsim("gap", "synth:chain:8", "--budget", "60%", "--json").out)[0]["policies"]
    }
    assert rows["foresight"]["planned_excess"] == pytest.approx(0, abs=1e-9)
    assert rows["coop"]["planned_outcome"] is None
