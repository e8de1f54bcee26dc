"""Sweeps: the same table in one process and in several, and after being cut off anywhere."""

from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from coopsim.base.types import CoopsimError, Role
from coopsim.study import tables
from coopsim.study.sweep import Grid, sweep
from coopsim.trace import TraceBuilder, save
from tests.study.sweep.tables import table

GRID = Grid(
    traces=("synth:chain:16", "synth:unet:3"),
    policies=("lru", "coop"),
    allocators=("arena", "counter"),
    budgets=("100%", "60%"),
    band=3,
    options={"steps": 2},
)


class CutOffError(Exception):
    """Somebody pulled the plug."""


def test_resumes_after_being_cut_off_anywhere(tmp_path: Path) -> None:
    whole = tmp_path / "whole.parquet"
    sweep(GRID, whole)
    n = len(table(whole))
    assert n == 2 * 2 * 2 * 2 * 3
    cut = tmp_path / "cut.parquet"
    for stop in (1, 7, 20, n - 1):

        def pull(done: int, _total: int, stop: int = stop) -> None:
            if done == stop:
                raise CutOffError

        with pytest.raises(CutOffError):
            sweep(GRID, cut, on_row=pull)
        assert not cut.exists()
        journal = Path(f"{cut}.journal")
        journal.write_bytes(journal.read_bytes()[:-3])  # and the last line was half written
    seen: list[int] = []
    sweep(GRID, cut, on_row=lambda done, _total: seen.append(done))
    assert seen[0] == n - 2
    pd.testing.assert_frame_equal(table(whole), table(cut))
    assert not Path(f"{cut}.journal").exists()


def test_several_processes_give_the_same_table(tmp_path: Path) -> None:
    sweep(GRID, tmp_path / "one.parquet")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        sweep(GRID, tmp_path / "two.parquet", executor)
    pd.testing.assert_frame_equal(table(tmp_path / "one.parquet"), table(tmp_path / "two.parquet"))


def test_any_executor_serves(tmp_path: Path) -> None:
    class Backwards(Executor):
        """Finishes at once, as no process pool would."""

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(fn(*args, **kwargs))
            return future

    sweep(GRID, tmp_path / "one.parquet")
    sweep(GRID, tmp_path / "two.parquet", Backwards())
    pd.testing.assert_frame_equal(table(tmp_path / "one.parquet"), table(tmp_path / "two.parquet"))


def test_a_journal_of_another_sweep_is_left_alone(tmp_path: Path) -> None:
    journal = tmp_path / "r.parquet.journal"
    journal.write_text('{"sweep": "another"}\n{"point": 0, "row": {}}\n')
    with pytest.raises(CoopsimError, match="rows of another sweep"):
        sweep(GRID, tmp_path / "r.parquet")
    assert "another" in journal.read_text()


@pytest.mark.parametrize("change", ["steps", "budget"])
def test_a_changed_sweep_does_not_go_on_with_old_rows(change: str, tmp_path: Path) -> None:
    own, output = tmp_path / "own.py", tmp_path / "r.parquet"
    own.write_text("from coopsim.simulate.policies import Policy\nP = Policy('p', 's', 's')\n")

    def grid(budget: str = "80%", steps: int = 1) -> Grid:
        return Grid(("synth:unet:3",), (f"{own}:P",), budgets=("100%", budget), options={"steps": steps})

    def pull(done: int, _total: int) -> None:
        if done == 1:
            raise CutOffError

    with pytest.raises(CutOffError):
        sweep(grid(), output, on_row=pull)
    changed = {"steps": grid(steps=2), "budget": grid("90%")}[change]
    with pytest.raises(CoopsimError, match="rows of another sweep"):
        sweep(changed, output)


def test_bands_count_what_ran_and_safe_budgets_lie_above_what_fails() -> None:
    ratio = [0.3, 0.4, 0.5, 0.6, 0.7]
    df = pd.DataFrame(
        {
            "trace": "t",
            "policy": "p",
            "allocator": "arena",
            "memory_ratio": ratio,
            "budget_bytes": [300, 400, 500, 600, 700],
            "band_center": 0.5,
            "outcome": ["oom", "ok", "thrash", "ok", "ok"],
            "overhead": [None, 1.4, None, 1.2, 1.1],
        }
        | dict.fromkeys(("fragmentation_rate", "fragmentation_rate_incl"), 0.1)
        | dict.fromkeys(("search_visits", "search_ns", "searches", "evictions", "recomputes"), 5)
    )
    found = tables.smallest_budgets(df).iloc[0]
    assert (found.smallest, found.safe, found.failing, found.points) == (0.4, 0.6, 1, 5)
    band = tables.bands(df).iloc[0]
    assert (band.points, band.fits) == (5, 3)
    assert band.overhead == pytest.approx((1.4 + 1.2 + 1.1) / 3)
    assert (band.overhead_min, band.overhead_max) == (1.1, 1.4)


def test_budgets_below_one_block(tmp_path: Path, coopsim: Any) -> None:
    """A sweep is refused before it begins; the lower end of a band is one block; a map ends there."""
    output = tmp_path / "r.parquet"
    command = ("sweep", "synth:chain:4", "--policy", "coop", "-o", output)
    code, out, err = coopsim(*command, "--budget", "80%,0.001%")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "synth:chain:4: a budget of 0.001%, 73 bytes, is less than one block of arena (512 B)" in err
    assert list(tmp_path.iterdir()) == []
    assert coopsim(*command, "--budget", "1%", "--band", "3", "--band-width", "2%").code == 0
    assert table(output).budget_bytes.min() == 512
    trace = TraceBuilder()
    value = trace.storage(2048, Role.ACTIVATION)
    trace.op("make", creates=[value], cost_ns=1)
    trace.free(value)
    save(trace.build({"model": "tiny"}), tmp_path / "tiny.parquet")
    assert coopsim("map", tmp_path / "tiny.parquet", "--policy", "coop", "--step", "5%", "-o", output).code == 0
    assert table(output).budget_bytes.min() >= 512
