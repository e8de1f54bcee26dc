"""What a plan costs, against the proven optimum of small traces."""

import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "experiments"))
from planned_gap import optima, third_step, trace_of

CASES = [
    (row.trace, row.memory_ratio, row.optimum) for row in optima().itertuples() if row.trace not in ("mlp", "bert")
]


@pytest.mark.parametrize(("name", "ratio", "optimum"), CASES)
def test_a_planned_step_attains_the_optimum(name: str, ratio: float, optimum: float) -> None:
    """No schedule is cheaper, so this is also a check of the bound: a plan below it would show a fault of either."""
    assert third_step(trace_of(name), "foresight", ratio) == pytest.approx(optimum, abs=2e-6)
