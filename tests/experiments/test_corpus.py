"""The corpus of scripts: what is committed of it, and how a row is made."""

import csv
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT

HERE = ROOT / "experiments" / "corpus"


@pytest.fixture(scope="module")
def corpus() -> ModuleType:
    spec = importlib.util.spec_from_file_location("corpus", HERE / "run.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


#: They need a value of the device: a count of batches, or that a generation has ended.
WAIT_FOR_DATA = ["ema_swa", "hf_gemma_generate", "trl_grpo"]


def test_no_script_of_the_corpus_fails_and_no_peak_differs(corpus: ModuleType) -> None:
    """As committed; rows are of the scripts as they are."""
    rows = corpus.known()
    scripts = {script.name: script for script in corpus.corpus()}
    assert set(rows) == set(scripts)
    assert len([row for row in rows.values() if row["verdict"] == "ok"]) >= 60
    for name, row in rows.items():
        assert row["digest"] == scripts[name].digest, name
        assert row["verdict"] != "fails", name
        if row["verdict"] == "ok" and not row["note"].startswith("plain: "):
            assert "0" in (row["difference"], row["unanswered"]), name
    assert [name for name, row in rows.items() if row["note"].startswith("plain: ")] == WAIT_FOR_DATA


def test_a_script_without_its_package_is_not_run(corpus: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("import torch\nfrom no_such_package.part import thing\n")
    [row] = corpus.measure([corpus.Script("a", file)])
    assert (row["verdict"], row["note"]) == ("not run", "needs no_such_package")


GOOD = """
import torch
x = torch.ones(1 << 20, device="cuda", requires_grad=True)
(x * x).sum().backward()
torch.optim.SGD([x]).step()
"""


@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.slow
def test_rows_are_made_in_forks(corpus: ModuleType, tmp_path: Path) -> None:
    """One goes well, one ends with an error, one never uses the GPU; a later one is none the worse for these."""
    texts = {"a": GOOD, "b": GOOD + "raise ValueError('no such thing')\n", "c": "import torch\n", "d": GOOD}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    a, b, c, d = corpus.measure([corpus.Script(name, tmp_path / f"{name}.py") for name in texts])
    assert (a["verdict"], a["difference"], a["steps"]) == ("ok", 0, 1)
    assert a["allocated"] > 3 << 22
    assert (b["verdict"], c["verdict"]) == ("fails", "fails")
    assert "no such thing" in b["note"]
    assert {key: d[key] for key in corpus.KINDS} == {key: a[key] for key in corpus.KINDS}


@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.slow
def test_a_run_that_a_dispatch_mode_watches_fails(
    corpus: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    (tmp_path / "a.py").write_text(GOOD)
    [row] = corpus.measure([corpus.Script("a", tmp_path / "a.py")], plain=False)
    assert (row["verdict"], "watched by a dispatch mode" in row["note"]) == ("fails", True)


def test_a_difference_is_said(corpus: ModuleType) -> None:
    watched = {"seconds": 2, "failed": "", "verdict": "ok", "steps": 3, "peaks": [9, 12, 20], "needs_data": ["nonzero"]}
    plain = {"seconds": 1, "failed": "", "peaks": [9, 16, 18]}
    row = corpus.row({"plain": plain, "watched": watched})
    assert row["difference"] == -4
    assert row["note"] == "sizes depend on data: nonzero"
    assert corpus.row({"plain": plain | {"failed": "why"}, "watched": watched})["note"] == "plain: why"


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
@pytest.mark.parametrize("name", ["nanogpt", "soap", "unet_amp", "train"])
def test_a_row_is_what_the_command_says(corpus: ModuleType, name: str) -> None:
    """Of a process of its own."""
    script = next(one for one in corpus.corpus() if one.name == name)
    command = [sys.executable, "-m", "coopsim", "phantom", "run", "--gpu", corpus.CARD, "--json", "--"]
    done = subprocess.run([*command, script.file, *script.arguments], capture_output=True, text=True, check=True)
    report, row = json.loads(done.stdout), corpus.known()[name]
    assert {kind: str(report[f"peak_{kind}_bytes"]) for kind in corpus.KINDS} == {k: row[k] for k in corpus.KINDS}


def test_results_are_kept_by_name(corpus: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "RESULTS", tmp_path / "corpus.csv")
    rows = {name: dict.fromkeys(corpus.COLUMNS, "") | {"script": name} for name in "ba"}
    corpus.keep(rows)
    with corpus.RESULTS.open(newline="") as file:
        assert [row["script"] for row in csv.DictReader(file)] == ["a", "b"]
    assert set(corpus.known()) == {"a", "b"}
