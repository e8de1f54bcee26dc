"""The command of many tasks: it can be cut off anywhere and goes on; and, on the phantom GPU, it does its work."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coopsim import phantom
from coopsim.phantom import build
from experiments.gpu import run
from experiments.gpu.run import Runner
from experiments.gpu.tasks import GPU, HOST, Task, plan
from tests.conftest import ROOT

SCRIPT = """
import os, sys, time
from pathlib import Path
folder, verb, *names = sys.argv[1:]
with open(Path(folder, "log"), "a") as log:
    log.write(" ".join(names) + "\\n")
if verb == "fail":
    sys.exit("the reason, in a line")
if verb == "sleep":
    time.sleep(60)
for name in names:
    Path(folder, name).write_text(name)
"""


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make a task that writes its files, fails, or takes long."""
    folder = tmp_path / "results"
    folder.mkdir()
    (tmp_path / "stub.py").write_text(SCRIPT)
    monkeypatch.setattr(run, "command_of", lambda task: [sys.executable, str(tmp_path / "stub.py"), *task.arguments])

    def make(name: str, lane: str, makes: str, needs: str = "", verb: str = "write", limit_s: int = 20) -> Task:
        files = tuple(makes.split())
        return Task(name, lane, "stub", (str(folder), verb, *files), files, tuple(needs.split()), limit_s)

    make.folder = folder  # type: ignore[attr-defined]
    return make


def test_in_order_of_value_as_files_come(task) -> None:
    tasks = [task("one", GPU, "a"), task("two", GPU, "b", "s"), task("three", GPU, "c"), task("host", HOST, "s", "a")]
    Runner(task.folder, tasks, 60).run()
    log = (task.folder / "log").read_text().split()
    assert log[0] == "a"
    assert log.index("s") < log.index("b")
    assert sorted(log) == ["a", "b", "c", "s"]
    assert json.loads((task.folder / "run.json").read_text())["tasks"] == dict.fromkeys(
        ["one", "two", "three", "host"], "done"
    )


def test_a_failure_stops_only_what_hangs_on_it(task) -> None:
    tasks = [
        task("one", GPU, "a", verb="fail"),
        task("two", HOST, "b", "a"),
        task("three", GPU, "c", "b"),
        task("four", GPU, "d"),
    ]
    runner = Runner(task.folder, tasks, 60)
    start = time.monotonic()
    runner.run()
    assert time.monotonic() - start < 30
    assert runner.outcome == {"one": "the reason, in a line", "four": "done"}
    again = [task("one", GPU, "a"), *tasks[1:]]
    more = Runner(task.folder, again, 60)
    more.run()
    assert more.outcome == {"one": "done", "two": "done", "three": "done", "four": "there already"}
    assert (task.folder / "log").read_text().split().count("d") == 1


def test_time_is_kept(task) -> None:
    tasks = [
        task("one", GPU, "a", verb="sleep", limit_s=1),
        task("two", GPU, "b"),
        task("three", GPU, "c", verb="sleep"),
    ]
    runner = Runner(task.folder, tasks, 5 + 4)
    start = time.monotonic()
    runner.run()
    assert time.monotonic() - start < 9
    assert runner.outcome["one"].startswith("ended after 1 s")
    assert runner.outcome["two"] == "done"
    assert runner.outcome["three"].startswith("ended after")
    assert {file.name for file in task.folder.iterdir()} == {"b", "log", "run.json"}


def test_no_gpu_is_said_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "experiments/gpu/run.py")], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr.startswith("run.py: PyTorch finds no GPU here: ")
    assert done.stderr.count("\n") == 1
    assert not (ROOT / "experiments/gpu/results").exists() or not list(
        (ROOT / "experiments/gpu/results").glob("*/run.json.part")
    )


@pytest.mark.slow
def test_cut_off_and_resumed_on_the_phantom(tmp_path: Path) -> None:
    """ResNet-50 with two images: every stage. Ended in the middle by a signal, then by the clock, then finished."""
    try:
        build.libraries()
    except phantom.PhantomError as reason:
        pytest.skip(str(reason))
    folder = tmp_path / "results"
    command = [sys.executable, str(ROOT / "experiments/gpu/run.py"), "--out", str(folder), "--batch", "2"]
    command += ["--models", "resnet-50", "--others", ""]
    environment = os.environ | phantom.environment("h100-80gb")
    first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (folder / "trace-resnet-50.parquet").exists():
        assert first.poll() is None
        time.sleep(0.1)
    first.send_signal(signal.SIGTERM)
    assert first.wait(20) == 143
    there = {file.name: file.stat().st_mtime_ns for file in folder.iterdir() if file.name != "run.json"}
    assert "trace-resnet-50.parquet" in there
    assert not any(name.endswith(".part") for name in there)
    second = subprocess.run([*command, "--budget-s", "20"], env=environment, capture_output=True, text=True)
    assert second.returncode == 1
    assert "missing: " in second.stdout
    last = subprocess.run([*command, "--budget-s", "1200"], env=environment, capture_output=True, text=True)
    assert last.returncode == 0, last.stdout + last.stderr
    expected = {name for task in plan(folder, ("resnet-50",), (), 2) for name in task.makes} | {"run.json"}
    assert {file.name for file in folder.iterdir()} == expected
    assert all((folder / name).stat().st_mtime_ns == made for name, made in there.items())
    _check(folder)
    report = [sys.executable, str(ROOT / "experiments/gpu/report.py"), str(folder)]
    refused = subprocess.run(report, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "was made on the phantom GPU: no evidence" in refused.stderr
    page = tmp_path / "page.md"
    made = subprocess.run([*report, "--page", str(page)], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    text = page.read_text()
    assert "A rehearsal on the phantom GPU: no number here is evidence." in text
    assert "Not recorded: bert-large, swin-t, gpt3-2.7b, unet, inception-v3, bilstm, spos." in text
    derived = json.loads((folder / "comparison.json").read_text())["content"]["resnet-50"]
    assert derived["differences"] == []  # the phantom against itself
    assert derived["summary"]["both"] == 569
    (found,) = json.loads((folder / "allocator.json").read_text())["content"]["runs"]
    assert found["same_place"] == found["allocations"] > 1000  # PyTorch's own allocator against the simulated one
    assert found["confirmed"]
    for key in ("peak_reserved_bytes", "peak_allocated_bytes", "smallest_bytes"):
        assert found[key][0] == found[key][1] > 0


def _check(folder: Path) -> None:
    for policy in ("plain", "coop", "dtr-oneflow", "dte-oneflow"):
        found = json.loads((folder / f"execution-resnet-50-{policy}.json").read_text())
        assert found["machine"]["phantom"]
        assert found["machine"]["gpu"] == "NVIDIA H100 80GB HBM3"
        assert len(found["ops"]) == len(found["again"]) == len(found["op_ns"]) == len(found["place_ns"])
        assert sum(found["again"]) == found["schedule"]["recomputes"]
        assert (sum(found["again"]) > 0) == (policy != "plain")
        same = found["after_first_round"]
        assert same["identical"] == same["found"] == same["storages"] == 322
        assert found["block_bytes"] >= found["arena_peak_bytes"]
    requests = json.loads((folder / "requests-resnet-50.json").read_text())["policies"]
    assert [r["agrees"] for r in requests.values()] == [True] * 3
    assert all(r["equal"] == r["requests"] > 1000 for r in requests.values())
