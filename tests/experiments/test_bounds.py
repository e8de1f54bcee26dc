"""Policies beside the lower bound on large traces: the table, how it is put together, and that nothing is below it."""

from collections.abc import Callable
from types import ModuleType

import pandas as pd
import pytest

from coopsim.base.types import Outcome
from coopsim.study.optimum.gap import planned_step
from coopsim.trace import load
from tests.conftest import ROOT

HERE = ROOT / "experiments"
pytest.importorskip("highspy")


@pytest.fixture
def bounds(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("experiments.optimum.bounds")


@pytest.fixture
def expected() -> pd.DataFrame:
    return pd.read_csv(HERE / "expected" / "bounds.csv")


def test_the_page_says_what_is_expected(bounds: ModuleType, expected: pd.DataFrame) -> None:
    from experiments.common.pages import read_section

    assert read_section("bounds").strip() == bounds.markdown(expected).strip()


def test_nothing_is_below_the_bound(bounds: ModuleType, expected: pd.DataFrame) -> None:
    assert len(expected) == len(bounds.TRACES) * len(bounds.RATIOS) == 37 * 7
    for policy in bounds.POLICIES:
        fits = expected[expected[policy].notna()]
        assert len(fits) > 40
        assert (fits[policy] >= fits.lower_bound - 1e-6).all(), policy
        assert (fits.status != "infeasible").all()
    assert (expected.known.isna() | (expected.known >= expected.lower_bound)).all()
    by_trace = expected.sort_values("memory_ratio").groupby("trace").lower_bound
    assert by_trace.apply(lambda b: b.dropna().is_monotonic_decreasing).all(), "less memory costs no less"


def test_a_bound_and_replays_are_made_again(bounds: ModuleType, expected: pd.DataFrame) -> None:
    row = expected[(expected.trace == "unet") & (expected.memory_ratio == 0.5)]
    file = next(f for f in bounds.TRACES if "unet" in f)
    again = bounds.bounds([file], row)
    found = again.iloc[0]
    assert (found.status, found.bound, found.ops) == (row.status.iloc[0], "cut", 230)
    assert found.lower_bound == pytest.approx(row.lower_bound.iloc[0], abs=1e-6)
    for policy in ("coop", "foresight"):
        third = planned_step(load(file), policy, int(row.budget_bytes.iloc[0]))
        assert third == (Outcome.OK, pytest.approx(row[policy].iloc[0], abs=1e-6))


def test_the_third_round_is_that_of_three_less_that_of_two(bounds: ModuleType) -> None:
    about = {"trace": "t", "band_center": 0.5, "budget_bytes": 1000}
    rows = []
    for policy in bounds.POLICIES:
        fails = policy == "coop"
        rows.append(about | {"policy": policy, "steps": 4, "outcome": "ok", "total_cost_ns": 250, "base_cost_ns": 200})
        costs = {"total_cost_ns": 360, "base_cost_ns": 300}
        rows.append(about | {"policy": policy, "steps": 6, "outcome": "oom" if fails else "ok"} | costs)
    found = bounds.third(pd.DataFrame(rows), 2)
    assert found.to_dict("records")[0] | {"coop": None} == (
        {"trace": "t", "memory_ratio": 0.5, "budget_bytes": 1000} | dict.fromkeys(bounds.POLICIES, 1.1) | {"coop": None}
    )
    assert pd.isna(found.coop[0])


def test_sums_count_the_cells_where_all_fit(bounds: ModuleType) -> None:
    def cell(ratio: float, least: float | None, foresight: float | None, coop: float, dtr: float) -> dict[str, object]:
        about = {"trace": "unet", "memory_ratio": ratio, "status": "bounded" if least else "infeasible"}
        others = dict.fromkeys(bounds.POLICIES, None)
        return (
            about
            | others
            | {"lower_bound": least, "known": least and least + 0.004, "foresight": foresight, "coop": coop, "dtr": dtr}
        )

    rows = [
        cell(0.9, 1.01, 1.02, 1.05, 1.04),
        cell(0.7, 1.02, 1.03, 1.05, 1.07),
        cell(0.5, 1.03, None, 1.2, 1.3),
        cell(0.3, None, None, float("nan"), float("nan")),
    ]
    text = bounds.markdown(pd.DataFrame(rows).astype(dict.fromkeys(bounds.POLICIES, float)))
    assert "| unet | 2.0 (2.4) / 3.0 / 5.0 / 5.0 | 3.0 (3.4) / - / 20.0 / 20.0 |" in text
    assert "| 2 of 4 cells, in which all fit |" in text
    assert "| overhead, summed, points | 3.0 | 5.0 | 9.0 | 10.0 |" in text
    assert "at least 67 %." in text
    assert "In 3 cells a schedule from the cut fits, 0.40 points above the bound in the median." in text
