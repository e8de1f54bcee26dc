"""A program that is watched does what it does unwatched: the same peaks on the stand-in driver, to the byte."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coopsim import phantom
from tests.conftest import ROOT

HERE = Path(__file__).parent / "programs"
SCRIPTS = ROOT / "tests/script/scripts"
CARD = "a100-80gb"
KINDS = "requested", "allocated", "reserved"
pytestmark = pytest.mark.usefixtures("phantom_gpu")

#: Runs a script, and writes its peaks to the file that is named first.
PLAIN = """
import atexit, json, runpy, sys
def end():
    import torch
    stats = torch.cuda.memory_stats()
    with open(out, "w") as file:
        json.dump([stats[f"{kind}_bytes.all.peak"] for kind in ("requested", "allocated", "reserved")], file)
atexit.register(end)
out, *sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def plain(*words: object) -> None:
    """Run Python on the stand-in driver, with nobody who watches."""
    environment = os.environ | phantom.environment(CARD)
    done = subprocess.run([sys.executable, *map(str, words)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def watched(*words: object, options: tuple[object, ...] = ()) -> dict[str, Any]:
    """The same by way of `coopsim phantom run`; its report."""
    command = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", CARD, "--json", *options, "--", *words]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def unwatched(phantom_gpu: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """Peaks of each op's backward pass."""
    file = tmp_path_factory.mktemp("plain") / "peaks.json"
    plain(HERE / "backward.py", file)
    found: dict[str, list[int]] = json.loads(file.read_text())
    assert len(found) > 100
    return found


@pytest.mark.parametrize("mode", ["trace", "without the library"])
def test_backward_passes(
    mode: str, unwatched: dict[str, list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "without the library":
        monkeypatch.setenv("CXX", str(tmp_path / "none"))
    options = ("--trace", tmp_path / "steps.parquet") if mode == "trace" else ()
    report = watched(HERE / "backward.py", tmp_path / "peaks.json", options=options)
    assert report["watched_by_mode"] == (mode == "without the library")
    runs = [json.loads(line) for line in (tmp_path / "peaks.json").read_text().splitlines()]
    other = [{name for name, peaks in unwatched.items() if found[name] != peaks} for found in runs]
    if mode == "without the library":  # a dispatch mode is active: what the library is for
        assert {"gather", "max over a dimension", "selective_log_softmax", "cumprod"} < other[0]
    else:  # as it is watched without --trace, and once more, recorded
        assert other == [set(), set()]


def slow(*words: str) -> Any:
    return pytest.param(words, marks=pytest.mark.slow, id=" ".join(words))


@pytest.mark.parametrize(
    "words",
    [
        slow("custom.py"),
        ("vision.py",),
        slow("finetune.py"),
        slow("compiled.py", "aot_eager"),
        slow("compiled.py", "method"),
        slow("compiled.py", "inductor"),
    ],
    ids=" ".join,
)
def test_scripts(words: tuple[str, ...], tmp_path: Path) -> None:
    plain("-c", PLAIN, tmp_path / "peaks.json", SCRIPTS / words[0], *words[1:])
    report = watched(SCRIPTS / words[0], *words[1:])
    assert not report["watched_by_mode"]
    assert [report[f"peak_{kind}_bytes"] for kind in KINDS] == json.loads((tmp_path / "peaks.json").read_text())
