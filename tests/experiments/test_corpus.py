"""The corpus of scripts: what is committed of it, and how a row is made."""

import csv
import importlib.util
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


def test_no_script_of_the_corpus_failed_and_no_peak_differed(corpus: ModuleType) -> None:
    """As committed; rows are of the scripts as they are."""
    rows = corpus.known()
    scripts = {script.name: script for script in corpus.corpus()}
    assert set(rows) == set(scripts)
    assert len([row for row in rows.values() if row["verdict"] == "ok"]) >= 60
    for name, row in rows.items():
        assert row["digest"] == scripts[name].digest, name
        assert row["verdict"] in ("ok", "not run"), name
        by_data = row["note"].startswith("sizes depend on data")
        assert row["difference"] == "0" or row["verdict"] == "not run" or by_data, name


def test_a_script_without_its_package_is_not_run(corpus: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("import torch\nfrom no_such_package.part import thing\n")
    row = corpus.measure(corpus.Script("a", file))
    assert row["verdict"] == "not run"
    assert row["note"] == "needs no_such_package"


@pytest.mark.usefixtures("phantom_gpu")
def test_a_row(corpus: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(
        "import torch\nx = torch.ones(1 << 20, device='cuda', requires_grad=True)\n(x * x).sum().backward()\n"
        "torch.optim.SGD([x]).step()\n"
    )
    row = corpus.measure(corpus.Script("a", file))
    assert row["verdict"] == "ok"
    assert row["difference"] == 0
    assert row["allocated"] > 3 << 22
    assert row["steps"] == 1


@pytest.mark.usefixtures("phantom_gpu")
def test_a_failure_is_said(corpus: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("import torch\nraise ValueError('no such thing')\n")
    row = corpus.measure(corpus.Script("a", file))
    assert row["verdict"] == "fails"
    assert "no such thing" in str(row["note"])


def test_results_are_kept_by_name(corpus: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "RESULTS", tmp_path / "corpus.csv")
    rows = {name: dict.fromkeys(corpus.COLUMNS, "") | {"script": name} for name in "ba"}
    corpus.keep(rows)
    with corpus.RESULTS.open(newline="") as file:
        assert [row["script"] for row in csv.DictReader(file)] == ["a", "b"]
    assert set(corpus.known()) == {"a", "b"}
