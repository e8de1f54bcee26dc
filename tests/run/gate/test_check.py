"""A script passes, fails when a line is added that keeps activations, and passes when that is agreed to."""

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coopsim.run import Report, Script, run
from coopsim.run.gate import Baseline
from coopsim.run.gate.baseline import BaselinePeaks
from tests.run.gate.scripts import KEEPS, SCRIPT

BYTES = 2048 * 256 * 4  #: of an activation


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


Runs = dict[str, tuple[Report, bytes]]


@pytest.fixture
def runs(script: Path, phantom_gpu: None, monkeypatch: pytest.MonkeyPatch) -> Runs:
    """What was run, by the script's text: the same text runs once, unless it is removed here."""
    found: Runs = {}

    def once(job: Script, *, snapshot: Path) -> Report:
        text = script.read_text()
        if text not in found:
            found[text] = run(job, snapshot=snapshot), snapshot.read_bytes()
        report, data = found[text]
        snapshot.write_bytes(data)
        return report

    monkeypatch.setattr(importlib.import_module("coopsim.run.gate.check"), "run", once)
    return found


@pytest.mark.usefixtures("runs")
def test_a_baseline(coopsim: Any, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gate(*options: str) -> Any:
        return coopsim("phantom", "run", "--gpu", "rtx-3060", "--baseline", "peaks.json", *options, "--", "train.py")

    assert gate("--update").code == 0
    first = Path("peaks.json").read_bytes()
    Path("peaks.json").write_bytes(first.replace(b'"train.py": {', b'"trains.py": {'))
    missing = gate()
    assert missing.code == 1
    assert "peaks.json has no run 'train.py'; the nearest is 'trains.py'; write it with --update" in missing.out
    Path("peaks.json").write_bytes(first)
    assert gate().code == 0

    script.write_text(SCRIPT.replace("    y = model(x)\n", f"    y = model(x)\n{KEEPS}"))
    page = tmp_path / "page.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    grown = gate()
    assert grown.code == 1
    assert f"+{3 * BYTES >> 20} MiB  train.py:9: kept.append(y.detach().relu())" in grown.out
    assert "❌ `train.py`" in page.read_text()
    assert "kept.append" in page.read_text()
    found = json.loads(gate("--json").out)
    assert not found["passed"]
    assert found["peaks"]["allocated"] - json.loads(first)["runs"]["train.py"]["allocated"] >= BYTES
    assert gate("--update").code == 0
    assert gate().code == 0


def test_a_limit(coopsim: Any, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def gate(limit: str, *options: str) -> Any:
        words = ("--gpu", "rtx-3060", "--max-memory", limit, *options, "--json")
        return coopsim("phantom", "run", *words, "--", "train.py")

    device = json.loads(gate("1GiB").out)["peaks"]["device"]
    assert gate(f"{device}B").code == 0
    above = gate(f"{device - 1}B")
    assert above.code == 1
    assert "more than" in json.loads(above.out)["failures"][0]

    def judged(job: Script, *, snapshot: Path) -> Report:
        assert job.replay_steps == 400  # so that `run` judges by the replay, whose outcome the slow tests check
        report, data = next(iter(runs.values()))
        snapshot.write_bytes(data)
        return replace(report, peak_device_bytes=device + 1)

    monkeypatch.setattr(importlib.import_module("coopsim.run.gate.check"), "run", judged)
    assert gate(f"{device}B", "--replay-steps", "400").code == 1


@pytest.mark.usefixtures("runs")
def test_what_trains_nothing_does_not_pass(coopsim: Any, script: Path) -> None:
    script.write_text(SCRIPT.replace("\nfor _ in range(3)", "\nfor _ in range(0)"))

    def gate(*options: str) -> Any:
        return coopsim("phantom", "run", "--gpu", "rtx-3060", *options, "--", "train.py")

    for options in (["--max-memory", "11GiB"], ["--baseline", "p.json", "--update"]):
        found = gate(*options)
        assert found.code == 1
        assert "no optimizer stepped, so nothing was trained: --allow-no-step if that is meant" in found.out
        assert not Path("p.json").exists()
        assert gate(*options, "--allow-no-step").code == 0


@pytest.mark.usefixtures("phantom_gpu")
def test_out_of_memory_is_no_pass(coopsim: Any, script: Path) -> None:
    script.write_text("import torch\nx = torch.empty(64 << 30, dtype=torch.uint8, device='cuda')\n")
    found = coopsim("phantom", "run", "--gpu", "rtx-3060", "--baseline", "p.json", "--update", "--", "train.py")
    assert found.code == 1
    assert "out of memory at train.py:2" in found.out
    assert not Path("p.json").exists() or json.loads(Path("p.json").read_text())["runs"] == {}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--update"], "--update requires --baseline"),
        (["--max-memory", "1GiB", "--fit"], "leave --fit out"),
        (["--baseline", "p.json", "--trace", "t"], "leave --trace out"),
        (["--max-memory", "12"], "--max-memory"),
        (["--allow-no-step"], "--allow-no-step requires --max-memory or --baseline"),
        (["--baseline", "p.json"], "p.json: no such baseline; write one with --update"),
        (["--baseline", "no/p.json", "--update"], "no/p.json: no such folder"),
        (["--baseline", ""], "empty"),
        (["--baseline", "", "--update"], "empty"),
    ],
)
def test_bad_input(coopsim: Any, options: list[str], says: str) -> None:
    found = coopsim("phantom", "run", *options, "--", "train.py")
    assert found.code == 2
    assert says in found.err
    assert len(found.err.splitlines()) == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"coopsim_baseline": 1, "runs": {"a": {}}}', "\x00"])
def test_a_file_that_is_no_baseline(coopsim: Any, tmp_path: Path, text: str) -> None:
    path = tmp_path / "peaks.json"
    path.write_text(text)
    found = coopsim("phantom", "run", "--baseline", path, "--", "train.py")
    assert found.code == 2
    assert "not a baseline of coopsim's" in found.err
    assert path.read_text() == text


def test_runs_that_others_write_meanwhile_are_kept(tmp_path: Path) -> None:
    """As workers of pytest-xdist do, which all read the file when they start."""
    peaks = BaselinePeaks("rtx-3060", 1, 2, 3, {}, {}, {})
    both = [Baseline.read(tmp_path / "peaks.json", update=True) for _ in range(2)]
    for baseline, name in zip(both, ("b", "a"), strict=True):
        baseline.runs[name] = peaks
        baseline.write(name)
    assert sorted(Baseline.read(tmp_path / "peaks.json").runs) == ["a", "b"]
    assert [file.name for file in tmp_path.iterdir()] == ["peaks.json"]
