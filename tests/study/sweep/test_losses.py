"""Sweeps that are killed, lose workers or fill the disk: started again, they end with the table of one left alone."""

import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from coopsim.base.types import CoopsimError
from coopsim.study.sweep import Grid, Processes, Scan, feasibility_map, sweep
from tests.processes import session, until
from tests.study.sweep.tables import table, when

TRACES = ("synth:chain:400", "synth:chain:300", "synth:unet:3")
BUDGETS = "100%:45%:1%"
ROWS = 3 * 3 * 56
COMMANDS = {
    "sweep": ("sweep", *TRACES, "--budget", BUDGETS, "--steps", "2"),
    "map": ("map", *TRACES, "--smallest", "45%", "--step", "1%", "--steps", "2"),
}


def start(command: tuple[str, ...], output: Path, **options: Any) -> "subprocess.Popen[str]":
    """A sweep in a session of its own."""
    line = [sys.executable, "-m", "coopsim", *command, "-o", str(output)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def rows(output: Path) -> int:
    """How many rows its journal holds."""
    journal = Path(f"{output}.journal")
    return max(0, journal.read_bytes().count(b"\n") - 1) if journal.exists() else 0


def reached(run: "subprocess.Popen[str]", output: Path, target: int) -> bool:
    """Whether a sweep has so many rows, or has ended."""
    return rows(output) >= target or run.poll() is not None


def killed(command: tuple[str, ...], output: Path, kills: int, seed: int) -> list[int]:
    """Run it, killed (SIGKILL) that often. Returns how many rows there were each time.

    Moments are spread over the run by rows, and within a row by how often these are counted; some are before the first
    row of a run.
    """
    drawn = random.Random(seed)
    most = int(0.8 * ROWS)  # so that it does not end while this process waits for its turn
    targets = [int(drawn.uniform(k, k + 1) * most / kills) for k in range(kills)]
    found = []
    for k, target in enumerate(targets):
        if k % 4 and found:  # it may have got further than meant before it was killed
            target = max(target, found[-1] + 1)
        with start(command, output, start_new_session=True) as run:
            there = partial(reached, run, output, target)
            assert until(there, 120, every=drawn.uniform(0.001, 0.01))  # so that it is anywhere within the next row
            assert run.poll() is None, "it ended before it could be killed"
            run.kill()
            run.wait()
            found.append(rows(output))
            assert until(lambda: not session(run.pid), 20), "workers outlive the sweep"
    assert not output.exists()
    with start(command, output) as run:
        _, err = run.communicate(timeout=300)
    assert run.returncode == 0, err
    assert f"{found[-1]} done before" in err or not found[-1]
    return found


@pytest.mark.parametrize(
    ("verb", "kills"),
    [
        ("sweep", 3),
        *(
            pytest.param(verb, kills, marks=pytest.mark.slow)
            for verb, kills in [("map", 3), ("sweep", 20), ("map", 20)]
        ),
    ],
)
def test_killed_at_any_moment(kills: int, verb: str, tmp_path: Path) -> None:
    done = killed((*COMMANDS[verb], "-j", "2"), tmp_path / "killed.parquet", kills, seed=kills)
    assert done == sorted(done)
    assert len(set(done)) > kills // 2
    grid = Grid(TRACES, ("dtr-oneflow", "dte-oneflow", "coop"), options={"steps": 2})
    if verb == "sweep":
        grid = Grid(**(vars(grid) | {"budgets": [f"{100 - k}%" for k in range(56)]}))
        sweep(grid, tmp_path / "alone.parquet")
    else:
        feasibility_map(grid, Scan(bottom="45%", step="1%"), tmp_path / "alone.parquet")
    alone, resumed = table(tmp_path / "alone.parquet"), table(tmp_path / "killed.parquet")
    assert len(alone) >= ROWS
    pd.testing.assert_frame_equal(alone, resumed)


GRID = Grid(("synth:chain:16", "synth:unet:3"), ("lru", "coop"), budgets=("100%", "60%"), band=15, options={"steps": 2})


def kill_a_worker() -> None:
    """One of this process's children, all of which are workers here."""
    os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)


def test_a_lost_worker_is_replaced(tmp_path: Path) -> None:
    sweep(GRID, tmp_path / "alone.parquet")
    sweep(GRID, tmp_path / "lost.parquet", Processes(2), when((10,), kill_a_worker))
    pd.testing.assert_frame_equal(table(tmp_path / "alone.parquet"), table(tmp_path / "lost.parquet"))


def test_workers_that_are_lost_at_every_try_end_the_sweep(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "import multiprocessing, os\nfrom coopsim.simulate.policies import Policy\n"
        "if multiprocessing.parent_process():\n    os._exit(9)\nP = Policy('p', 's', 's')\n"
    )
    grid = Grid(("synth:unet:3",), ("lru", f"{own}:P"), budgets=("100%",), options={"steps": 1})
    output = tmp_path / "r.parquet"
    with pytest.raises(
        CoopsimError, match=r"a worker was lost again and again at a replay such as .*own.py:P on synth:unet:3"
    ):
        sweep(grid, output, Processes(1))
    assert not output.exists()
    assert rows(output) == 1


def test_an_executor_of_the_callers_is_not_replaced(tmp_path: Path) -> None:
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor,
        pytest.raises(CoopsimError, match="a worker was lost at a replay"),
    ):
        sweep(GRID, tmp_path / "r.parquet", executor, when((5,), kill_a_worker))
    assert 5 <= rows(tmp_path / "r.parquet") < len(GRID.points())
    sweep(GRID, tmp_path / "r.parquet")
    assert len(table(tmp_path / "r.parquet")) == len(GRID.points())


def test_disk_full(tmp_path: Path) -> None:
    command, output = (*COMMANDS["sweep"], "-j", "1"), tmp_path / "r.parquet"

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    with start(command, output, preexec_fn=little_room) as run:
        out, err = run.communicate(timeout=120)
    assert (run.returncode, out) == (2, "")
    assert err.splitlines()[-1].endswith("(File too large); what is done is kept, start it again to go on")
    assert "Traceback" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["r.parquet.journal"]
    done = rows(output)
    assert 50 < done < ROWS
    with start(command, output) as run:
        _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert f"{done} done before" in err
    assert len(table(output)) == ROWS


def test_two_sweeps_do_not_share_a_journal(tmp_path: Path) -> None:
    output = tmp_path / "r.parquet"

    def again() -> None:
        with pytest.raises(CoopsimError, match="another coopsim is at work on it"):
            sweep(GRID, output)

    sweep(GRID, output, on_row=when((5,), again))
    assert len(table(output)) == len(GRID.points())
