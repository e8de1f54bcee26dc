"""Feasibility maps: what is tried, what is said of it, and that it is refined where the outcome changes, only there."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coopsim.base.types import CoopsimError
from coopsim.study import tables
from coopsim.study.sweep import WALL_CLOCK_COLUMNS, Grid, Processes, Scan, feasibility_map
from coopsim.study.sweep.feasibility_map import _Line
from coopsim.study.tables import Tried, feasibility
from tests.study.sweep.tables import table

GRID = Grid(("synth:unet:4",), ("dtr-oneflow", "coop"), options={"steps": 2})
SCAN = Scan("100%", "40%", "2%")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    path = tmp_path_factory.mktemp("map") / "m.parquet"
    feasibility_map(GRID, SCAN, path)
    return pd.read_parquet(path)


def test_every_budget_of_the_grid_and_no_outcome_changes_unrefined(found: pd.DataFrame) -> None:
    peak = found.peak_without_eviction_bytes.iloc[0]
    fine = 0.002 * peak
    for _, line in found.groupby("policy"):
        coarse = line[~line.refined]
        assert coarse.budget.tolist() == [f"{100 - 2 * k}%" for k in range(31)]
        assert {"ok", "oom"} <= set(line.outcome)
        rows = line.sort_values("budget_bytes")[["budget_bytes", "outcome", "refined"]].itertuples(index=False)
        for low, high in pairwise(rows):
            if low.outcome != high.outcome:
                assert high.budget_bytes - low.budget_bytes <= fine + 512
            elif low.refined and high.refined:
                continue
        assert line.refined.any()
        changes = (coarse.outcome != coarse.outcome.shift()).sum() - 1
        assert line.refined.sum() >= 3 * changes  # a tenth of a step takes three or four halvings


def test_several_processes_give_the_same_map(found: pd.DataFrame, tmp_path: Path) -> None:
    feasibility_map(GRID, SCAN, tmp_path / "m.parquet", Processes(2))
    pd.testing.assert_frame_equal(found.drop(columns=list(WALL_CLOCK_COLUMNS)), table(tmp_path / "m.parquet"))


@given(st.lists(st.sampled_from(["ok", "oom", "thrash"]), min_size=101, max_size=101), st.randoms())
def test_the_same_budgets_in_whatever_order_outcomes_come(outcomes: list[str], order: Any) -> None:
    """Any outcomes at all on a lattice of 101 budgets, ten to a step."""
    (setting,) = Grid(("synth:chain:8",), ("lru",)).settings()

    def tried(shuffle: bool) -> set[int]:
        line = _Line(setting, Scan("100%", "90%", "1%"))
        todo = line.coarse()
        while todo:
            point = todo.pop(order.randrange(len(todo)) if shuffle else 0)
            todo += line.closer(point, {"outcome": outcomes[line.numbers[point]]})
        return set(line.outcomes)

    once = tried(shuffle=False)
    assert once == tried(shuffle=True)
    assert set(range(0, 101, 10)) <= once
    for a, b in pairwise(sorted(once)):
        assert b - a == 1 or outcomes[a] == outcomes[b]


@given(st.dictionaries(st.integers(1, 60), st.booleans(), min_size=1))
def test_smallest_safe_and_failing_ranges_by_their_definition(fits: dict[int, bool]) -> None:
    f = feasibility(Tried(b, b / 60, "ok" if ok else "oom") for b, ok in fits.items())
    good = [b for b, ok in fits.items() if ok]
    safe = [b for b in good if all(ok for c, ok in fits.items() if c >= b)]
    assert (f.smallest and f.smallest.budget_bytes) == min(good, default=None)
    assert (f.safe and f.safe.budget_bytes) == min(safe, default=None)
    bad_above = sorted(b for b, ok in fits.items() if not ok and good and b > min(good))
    inside = [b for h in f.failing for b in fits if h.least.budget_bytes <= b <= h.greatest.budget_bytes]
    assert sorted(inside) == bad_above
    assert sum(h.points for h in f.failing) == len(bad_above)
    for left, right in pairwise(f.failing):
        assert any(ok and left.greatest.budget_bytes < b < right.least.budget_bytes for b, ok in fits.items())


def test_the_command_says_it_in_json_and_in_words(coopsim: Any, found: pd.DataFrame, tmp_path: Path) -> None:
    output = tmp_path / "m.parquet"
    flags = ("--policy", "dtr-oneflow,coop", "--steps", 2, "--smallest", "40%", "--step", "2%", "-j", 1, "-o", output)
    code, out, err = coopsim("map", "synth:unet:4", *flags, "--json")
    assert code == 0, err
    pd.testing.assert_frame_equal(found.drop(columns=list(WALL_CLOCK_COLUMNS)), table(output))
    answer = json.loads(out)
    assert (answer["replays"], answer["refined"], answer["fine"]) == (len(found), found.refined.sum(), "0.2%")
    for setting, (_, f) in zip(answer["settings"], tables.feasible(found), strict=True):
        assert setting["safe"] == {"budget_bytes": f.safe.budget_bytes, "memory_ratio": f.safe.memory_ratio}
        assert [h["to"]["budget_bytes"] for h in setting["failing"]] == [h.greatest.budget_bytes for h in f.failing]
        assert (setting["policy"], setting["steps"], setting["torch"]) == (f"{setting['policy']}", 2, None)
    assert "smallest safe" in tables.feasible_text(found)
    assert coopsim("plot", output, "-o", tmp_path).code == 0
    assert (tmp_path / "feasibility.png").exists()


def test_budgets_are_exact() -> None:
    scan = Scan("100%", "10%", "0.1%", "0.025%")
    assert (scan.per_step, scan.units) == (4, 3600)
    assert [scan.text(n) for n in (0, 1, 2, 4, 3600)] == ["100%", "99.975%", "99.95%", "99.9%", "10%"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("100%", "10%", "0.5%", "0.3%"), "a whole number of finer steps"),
        (("100%", "10%", "0.5%", "1%"), "a whole number of finer steps"),
        (("10%", "100%", "0.5%"), "goes down"),
        (("6GiB", "10%", "0.5%"), "not a percentage"),
        (("100%", "0%", "0.5%"), "not a percentage above 0%"),
        (("100%", "10%", "0.0001%"), "a million is the most"),
    ],
)
def test_scans_that_make_no_sense(asked: tuple[str, ...], says: str) -> None:
    with pytest.raises(CoopsimError, match=says):
        Scan(*asked)
