"""A program that is watched does what it does unwatched: the same peaks on the stand-in driver, to the byte."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.record.observe.runs import HERE, KINDS, PLAIN, plain, watched
from tests.run.leaks import HEAD, PAIRS

SCRIPTS = ROOT / "tests/run/scripts"
pytestmark = pytest.mark.usefixtures("phantom_gpu")


@pytest.fixture(scope="module")
def unwatched(phantom_gpu: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """Peaks of each op's backward pass."""
    file = tmp_path_factory.mktemp("plain") / "peaks.json"
    plain(HERE / "backward.py", file)
    found: dict[str, list[int]] = json.loads(file.read_text())
    assert len(found) > 100
    return found


@pytest.mark.parametrize("mode", ["trace", pytest.param("without the library", marks=pytest.mark.slow)])
def test_backward_passes(
    mode: str, unwatched: dict[str, list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "without the library":
        monkeypatch.setenv("CXX", str(tmp_path / "none"))
    options = ("--masks", "none", *(("--trace", tmp_path / "steps.parquet") if mode == "trace" else ()))
    report = watched(HERE / "backward.py", tmp_path / "peaks.json", options=options)
    assert report["watched_by_mode"] == (mode == "without the library")
    runs = [json.loads(line) for line in (tmp_path / "peaks.json").read_text().splitlines()]
    other = [{name for name, peaks in unwatched.items() if found[name] != peaks} for found in runs]
    if mode == "without the library":  # a dispatch mode is active: what the library is for
        assert {"gather", "max over a dimension", "selective_log_softmax", "cumprod"} < other[0]
    else:  # as it is watched without --trace, and once more, recorded
        assert other == [set(), set()]


@pytest.mark.slow
def test_only_sizes_from_data_depend_on_what_masks_keep(tmp_path: Path) -> None:
    """The gradient of prod, too, asks for a mask and what it keeps: the zeros in its input, of which there are none."""
    found = []
    for masks in ("all", "none"):
        watched(HERE / "backward.py", tmp_path / masks, options=("--masks", masks))
        found.append(json.loads((tmp_path / masks).read_text().splitlines()[0]))
    assert {name for name, peaks in found[0].items() if found[1][name] != peaks} == {"masked_select", "nonzero"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_scripts_whose_memory_grows(name: str, tmp_path: Path) -> None:
    """What is kept is looked for in the program's variables: nothing may be kept for that."""
    script = tmp_path / "train.py"
    script.write_text(HEAD + PAIRS[name].leaks)
    plain("-c", PLAIN, tmp_path / "peaks.json", script)
    report = watched(script)
    assert report["growth"]
    assert [report[f"peak_{kind}_bytes"] for kind in KINDS] == json.loads((tmp_path / "peaks.json").read_text())


def slow(*words: str) -> Any:
    return pytest.param(words, marks=pytest.mark.slow, id=" ".join(words))


@pytest.mark.parametrize(
    "words",
    [
        slow("custom.py"),
        slow("vision.py"),
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
