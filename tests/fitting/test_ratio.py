"""`coopsim phantom run --compile-budget`: the largest ratio with which a compiled script fits."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coopsim.cli import main
from coopsim.fitting.changes import Changes
from coopsim.fitting.searching import ratio

SCRIPTS = Path(__file__).parent / "scripts"
MIB = 1 << 20


def runs(monkeypatch: pytest.MonkeyPatch, peak_mib: Any, **said: Any) -> list[float]:
    """Runs of a script take peak_mib(ratio), and are noted."""
    tried: list[float] = []

    def run(script: Any) -> Any:
        budget = Changes.read(script.told).activation_memory_budget
        assert budget is not None
        tried.append(budget)
        nbytes = peak_mib(budget) * MIB
        peaks = dict.fromkeys(("peak_device_bytes", "peak_allocated_bytes", "peak_reserved_bytes"), nbytes)
        fits = nbytes <= script.total_bytes
        plugin = {"step_ns": 2 - budget, "backwards": 1, "own_memory_budgets": []} | said.get("plugin", {})
        report = {
            "outcome": "ok" if fits else "oom",
            "compiled_graphs": said.get("graphs", 1),
            "plugin": plugin,
        } | peaks
        return SimpleNamespace(**report, to_dict=dict)

    monkeypatch.setattr(ratio, "run", run)
    return tried


def command(*words: str) -> int:
    return main(["phantom", "run", "--gpu", "rtx-3060", *words, "--", "train.py"])


def test_the_largest_that_fits_where_less_takes_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It takes most where nearly all is recomputed in one go."""
    tried = runs(monkeypatch, lambda r: 400 + 1000 * r if r > 0.2 else 3000)
    assert command("--compile-budget", "837MiB", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["activation_memory_budget"], found["fails"]) == (0.43, 0.44)
    assert found["peak_device_bytes"] == 830 * MIB
    assert found["time_ratio"] == pytest.approx(1.57)
    assert found["lines"][-1] == "functorch_config.activation_memory_budget = 0.43"
    assert [run["activation_memory_budget"] for run in found["runs"]] == tried
    assert tried[:7] == [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]


def test_as_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs(monkeypatch, lambda _: 400, plugin={"own_memory_budgets": [0.3]}) == []
    assert command("--compile-budget", "400MiB") == 0
    out = capsys.readouterr().out
    assert "ratio           1 fits\n" in out
    assert out.endswith("caution: the script itself sets it to 0.3: change that line\n")


def test_none_fits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    tried = runs(monkeypatch, lambda _: 401)
    assert command("--compile-budget", "400MiB") == 3
    assert tried == [1.0, *ratio.GRID]
    assert "none of those tried fits: 0, 0.02, 0.05, 0.1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--compile-budget", "8"], "--compile-budget '8' has no unit"),
        (["--compile-budget", "100MiB"], "--compile-budget 100MiB: the context alone takes 160 MiB"),
        (["--compile-budget", "20GiB"], "--compile-budget 20GiB: the NVIDIA GeForce RTX 3060 has 11.75 GiB"),
        (["--compile-budget", "8GiB", "--fit"], "excludes --fit"),
        (["--compile-budget", "8GiB", "--largest", "1:2"], "excludes --largest"),
        (["--compile-budget", "8GiB", "--memory", "9GiB"], "excludes --memory"),
        (["--compile-budget", "8GiB", "--trace", "t.parquet"], "excludes --trace"),
    ],
)
def test_bad_input(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*words) == 2
    err = capsys.readouterr().err.splitlines()
    assert said in err[-1]


def test_what_compiles_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    runs(monkeypatch, lambda _: 401, graphs=0)
    assert command("--compile-budget", "400MiB") == 2
    assert "train.py compiles nothing" in capsys.readouterr().err.splitlines()[-1]
    runs(monkeypatch, lambda _: 401, plugin={"backwards": 0})
    assert command("--compile-budget", "400MiB") == 2
    assert "train.py has no backward pass" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_it_overrides_what_the_script_sets(tmp_path: Path) -> None:
    own = "import torch._functorch.config as config\nconfig.activation_memory_budget = 0.3\n"
    text = (SCRIPTS / "compiled.py").read_text().replace("model = ", f"{own}model = ", 1)
    (tmp_path / "own.py").write_text(text)
    words = ["phantom", "run", "--gpu", "rtx-3060", "--compile-budget", "420MiB", "--json", "--", tmp_path / "own.py"]
    done = subprocess.run([sys.executable, "-m", "coopsim", *map(str, words), "4096"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["own_memory_budgets"] == [0.3]
    assert found["activation_memory_budget"] > 0.9
    assert found["peak_device_bytes"] <= 420 * MIB < found["runs"][0]["peak_device_bytes"]
    assert 1 < found["time_ratio"] < 4 / 3
