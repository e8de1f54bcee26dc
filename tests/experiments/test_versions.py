"""The table of versions: the page has what was measured, and so has what is said of versions that were not tested."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from coopsim import cli
from coopsim.cards import profiles
from coopsim.cli.parser import build
from coopsim.record.observe import tested
from tests.conftest import ROOT

HERE = ROOT / "experiments" / "versions"


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(HERE))
    spec = importlib.util.spec_from_file_location("versions", HERE / "run.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_page_has_the_tables(versions: ModuleType) -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert versions.table(versions.known()) in page
    for row in versions.known().values():
        assert all(name in page for name in row["failed"].split()), row["torch"]


def test_cublas_takes_what_pytorch_s_rule_gives(versions: ModuleType) -> None:
    for row in versions.known().values():
        minor = tested._minor(row["torch"])
        for card in versions.CARDS:
            major = int(profiles.get(card).compute_capability.partition(".")[0])
            large = major == 9 or (minor >= (2, 12) and major in (10, 12))
            assert int(row[card]) == ((32 << 20) if large else 8 * (1 << 20) + (128 << 10)), (row["torch"], card)


def test_tested_versions_are_the_rows(versions: ModuleType) -> None:
    rows = versions.known().values()
    assert tuple(row["torch"].rpartition(".")[0] for row in rows) == tested.TORCH
    by_age = sorted((row["transformers"].rpartition(".")[0] for row in rows), key=tested._minor)
    assert (by_age[0], by_age[-1]) == tested.TRANSFORMERS


@pytest.mark.parametrize(
    ("torch", "transformers", "said"),
    [
        ("2.11.0+cu130", "5.17.0", ""),
        ("2.5.1", "5.17.0", "torch 2.5.1 is not among the versions tested, 2.6, 2.7, "),
        ("2.11.0", "4.50.0", "transformers 4.50.0 is not among the versions tested, 4.51 to "),
        ("2.11.0", "", ""),
    ],
)
def test_what_is_said(
    torch: str, transformers: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed = {"torch": torch.partition("+")[0], "transformers": transformers}
    monkeypatch.setattr(tested, "_installed", installed.__getitem__)
    monkeypatch.setattr(tested, "_looked_up", lambda: ["torch._C._gone (nothing works)"])
    monkeypatch.setattr(tested, "cache_folder", lambda: tmp_path)
    found = tested.untested()
    assert found.startswith(said)
    assert bool(found) == bool(said)
    assert "\n" not in found
    assert ("torch._C._gone" in found) == (torch == "2.5.1")


@pytest.mark.parametrize(
    "words", ["phantom run -- a.py", "fit --gpu any -- a.py", "live run -- a.py", "capture gpt2 -o t"]
)
def test_what_runs_pytorch_says_it(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tested, "untested", lambda: "torch 2.5.1 is not among the versions tested")
    cli._note_untested(build().parse_args(words.split()))
    assert capsys.readouterr().err == "torch 2.5.1 is not among the versions tested\n"


@pytest.mark.slow  # PyTorch with Dynamo and Inductor is imported: four seconds of processor time
def test_what_it_lacks_is_looked_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of another PyTorch, its private names are looked up, in another process, before a script starts."""
    installed = tmp_path / "torch-2.99.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.99.0\n")
    lacks = "from coopsim.record.observe import private\nprivate.known('torch._C._never_there', 'nothing works')\n"
    (tmp_path / "sitecustomize.py").write_text(lacks)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(tested, "cache_folder", lambda: tmp_path)
    cli._note_untested(build().parse_args(["fit", "--gpu", "any", "--", "a.py"]))
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith("torch 2.99.0 is not among the versions tested, 2.6, ")
    assert said.endswith("; it lacks torch._C._never_there (nothing works)")
