"""An answer in time: what is known after so long, and trials that cannot win."""

import argparse
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coopsim.base.types import CoopsimError
from coopsim.cli.flags_shared import duration
from coopsim.fitting import Search
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.remedies import live
from coopsim.fitting.searching.progress import Runs
from coopsim.fitting.searching.trials import Trials
from coopsim.run import Report, Script
from tests.processes import alive

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("5m", 300), ("1h", 3600), ("1s", 1)])
def test_times(text: str, seconds: int) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "m", "0m", "-1s", "1.5h", "5min", "1000000000s", "٣m"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a duration, such as"):
        duration(text)


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.parametrize("jobs", [1, 2])
def test_after_the_time_what_is_known_is_shown(jobs: int) -> None:
    """The verdict at least."""
    words = ["--gpu", "rtx-3060", "--memory", "500MiB", "--time", "1s", "--jobs", str(jobs)]
    command = [sys.executable, "-m", "coopsim", "fit", *words, "--", str(SCRIPTS / "blocks.py"), "--batch", "{4096}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("Does not fit: needs 586 MiB")
    assert "time ran out (--time): not everything was tried" in done.stdout.splitlines()
    assert len([row for row in done.stderr.splitlines() if row.endswith("…")]) <= 1 + jobs


@pytest.mark.usefixtures("phantom_gpu")
def test_a_larger_batch_is_ended_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known is told once, however often it is asked for."""
    (tmp_path / "train.py").write_text(f"import os, time; open('{tmp_path}/' + str(os.getpid()), 'x'); time.sleep(20)")
    script = Script((str(tmp_path / "train.py"), "{8}"), card="t4")
    fits = {"outcome": "ok", "steps": 2, "ooms": 0, "retries": 0, "processes": 1, "versions": {}, "context_bytes": 1}
    peaks = {f"peak_{name}_bytes": 1 for name in ("allocated", "reserved", "requested", "device")}
    report = Report(command=[], gpu="t4", memory_bytes=script.total_bytes, **fits | peaks)  # type: ignore[arg-type]
    survey = SimpleNamespace(report=report, needs_bytes=1, basis="", precision="", trains=True)
    monkeypatch.setattr(Trials, "survey", lambda self, _: self.__dict__.update(first=report) or survey)
    search = Search(script, seconds=1)
    found = search.run()
    assert found.larger is not None
    assert found.larger.tried == {}
    [number] = (int(file.name) for file in tmp_path.glob("[0-9]*"))
    assert not alive(number)
    for _ in range(2):
        assert [note for note in search.so_far().notes if "time ran out" in note] == [found.notes[-1]]


def test_what_runs_when_the_time_is_over_is_ended_and_no_failure() -> None:
    """Nor is anything begun then."""
    tried = Trials(Script(("a.py",), card="t4"), Runs(lambda _: None))

    def runs(_: Script, __: object) -> Any:
        tried.stopped = True
        raise CoopsimError("a.py was ended by signal 9")

    tried.execute = runs  # type: ignore[assignment, method-assign]
    assert tried.run("one", Changes()) is None
    assert tried.failed == {}
    began = tried.runs.count
    assert tried.run("another", Changes()) is None
    assert tried.runs.count == began


def test_a_part_of_the_trials_ends_apart_or_with_all() -> None:
    """As live's, which have a third of the time; what they find is found."""
    tried = Trials(Script(("a.py",), card="t4"), Runs(lambda _: None))
    with tried.apart(math.inf) as part, tried.apart(math.inf) as other:
        part.notes.append("said")
        part.copies.append(False)
        part.stop()
        assert part.stopped
        assert not tried.stopped
        assert part.run("one", Changes()) is None
        assert tried.notes == ["said"]
        assert tried.copies == [False]
        tried.stop()
        assert other.stopped
    assert tried.parts == []


RAN = {"steps": 5, "planned_steps": 0, "failed": "", "fits": True, "peak_reserved_bytes": 8, "budget_bytes": 8}


@pytest.mark.parametrize(
    ("steps", "outcome", "plugin", "budgets"),
    [
        (2, "oom", RAN, 0),
        (3, "oom", RAN, 1),
        (5, "oom", RAN | {"planned_steps": 1}, 3),
        (5, "oom", RAN | {"failed": "no schedule", "fits": False}, 1),
        (5, "ok", RAN | {"planned_steps": 3}, 2),  # with offload, too, which moves nothing
        (5, "ok", RAN | {"planned_steps": 3, "peak_reserved_bytes": 9}, 4),
    ],
)
def test_a_smaller_budget_is_tried_where_it_may_help(
    steps: int, outcome: str, plugin: dict[str, Any], budgets: int
) -> None:
    """Not of a script too short for a plan; nor where no step went by one. Offload is tried if a plan costs time.

    Each is run once more with all of the card if it has exceeded its budget and freed the allocator's cache.
    """
    said: Any = SimpleNamespace(
        outcome=outcome,
        plugin=plugin | {"predicted_overhead": 1.1, "host_bytes": 0},
        ooms=0,
        steps=steps,
        retries=1,
        peak_device_bytes=1,
    )
    count = []
    tried = Trials(Script(("a.py",), card="t4"), Runs(lambda _: None))
    tried.execute = lambda script, _: count.append(script) or said  # type: ignore[assignment, func-returns-value, method-assign]
    report = SimpleNamespace(ranks=(), compiled_graphs=0, steps=steps, context_bytes=0)
    survey: Any = SimpleNamespace(report=report, models=(), step_ns=1, clock_step_ns=0)
    live.propose(Bench(tried, survey))
    assert len(count) == budgets
    assert len(tried.found) == (outcome == "ok" and plugin["planned_steps"] > 0)
    assert bool(tried.notes) == (steps < 3)
