"""Experiments: every file can be read and drawn, a small one agrees with what is expected, the page says the same."""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from coopsim.base.types import CoopsimError
from tests.conftest import ROOT
from tests.study.figures.drawn import texts_are_inside_and_apart

HERE = ROOT / "experiments"
NAMES = sorted(path.stem for path in (HERE / "figures").glob("*.toml"))
TINY = """
traces = "synth:unet:4"
policies = ["dtr-oneflow", "coop"]
budgets = "80%"
band = 3
[figure]
draw = "overhead"
"""


@pytest.fixture
def run(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("experiments.figures.run")


@pytest.fixture
def tiny(run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of experiments with one in it, and of expected results with that of a figure that takes long."""
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.setattr(run, "EXPECTED", tmp_path)
    monkeypatch.setattr(run, "PAGE", tmp_path / "page")
    monkeypatch.setattr(run.results, "write", lambda: None)
    found = run.experiments(tmp_path)
    monkeypatch.setattr(run, "experiments", lambda: found)
    return tmp_path


def call(run: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["run.py", "-j", "1", "-o", str(folder / "out"), *words])
    code: int = run.main()
    return code


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_an_experiment(run: ModuleType, name: str) -> None:
    from coopsim.cli import grid
    from coopsim.cli.parser import build
    from coopsim.study.sweep import grid_file

    experiment = run.experiments()[name]
    assert experiment.figure["draw"] in run.pictures.PICTURES
    assert experiment.path.read_text(encoding="utf-8").startswith("# "), "says what it shows"
    if experiment.replays:
        keys = grid_file.MAP_KEYS if experiment.is_map else grid_file.KEYS
        wanted, _ = grid.of(build().parse_args(["sweep", str(experiment.path), "-o", "r.parquet"]), keys)
        assert len(wanted.settings()) >= 20
        expected = pd.read_csv(HERE / "expected" / f"{name}.csv")
        assert set(expected.policy) == set(wanted.policies)
    elif "of" in experiment.figure:
        assert run.experiments()[experiment.figure["of"]].replays
    else:
        table = run.table_of(experiment, Path(), 1, redraw=False)
        texts_are_inside_and_apart(run.pictures.draw(experiment.figure["draw"], table))
        assert (HERE / experiment.figure["by"]).exists()


def test_all_are_there(run: ModuleType) -> None:
    assert len(NAMES) >= 14
    order = list(run.experiments())
    of = {name: e.figure["of"] for name, e in run.experiments().items() if "of" in e.figure}
    assert of
    assert all(order.index(source) < order.index(name) for name, source in of.items())


def test_a_small_one_agrees_with_what_is_expected(
    run: ModuleType, tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(run, tiny, monkeypatch) == 1
    assert "there is no expected result" in capsys.readouterr().err
    assert call(run, tiny, monkeypatch, "--update") == 0
    assert {p.name for p in (tiny / "out" / "figures").iterdir()} == {"tiny.png", "tiny.pdf"}
    assert (tiny / "page" / "tiny.png").exists()
    capsys.readouterr()
    assert call(run, tiny, monkeypatch) == 0  # another run, other times of searches
    shutil.rmtree(tiny / "out" / "figures")
    assert call(run, tiny, monkeypatch, "--redraw") == 0
    expected = tiny / "tiny.csv"
    table = pd.read_csv(expected)
    table.loc[1, "overhead"] += 0.01
    table.to_csv(expected, index=False)
    assert call(run, tiny, monkeypatch) == 1
    assert "coop" in capsys.readouterr().err


def test_only_wall_clock_may_differ(run: ModuleType) -> None:
    a = "trace,policy,allocator,overhead,search_ns\nx,coop,arena,1.5,100\n"
    assert run.differences(a, a.replace("100", "99")) == []
    (line,) = run.differences(a, a.replace("1.5", "1.6"))
    assert line == "x coop arena: overhead 1.5, not 1.6"
    assert run.differences(a, a + "y,coop,arena,1.5,100\n") == ["1 rows of 4 columns, not 2 of 4"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[figure]\nof = 'overhead'", "needs draw"),
        ("traces = 'synth:chain:8'\n[figure]\ndraw = 'overhead'\nof = 'x'", "one of"),
        ("[figure]\ndraw = 'overhead'\nred = 'gap'", "red"),
        ("policy = 'coop'\n[figure]\ndraw = 'overhead'", "policy"),
        ("figure = 3\ntraces = 'synth:chain:8'", "figure"),
        ("traces =", "not TOML"),
    ],
)
def test_a_wrong_file_is_refused(run: ModuleType, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(CoopsimError, match=message) as error:
        _ = run.experiments(tmp_path)["wrong"].figure
    assert "\n" not in str(error.value)


def test_pages_say_what_is_expected(run: ModuleType) -> None:
    from experiments.common.pages import read_section

    sections = run.results.sections()
    assert len(sections) >= 4
    for name, text in sections.items():
        assert read_section(name).strip() == text.strip(), name


def test_the_pages_show_every_figure(run: ModuleType) -> None:
    from experiments.common.pages import every

    text = "".join(page.read_text(encoding="utf-8") for page in every())
    shown = set(re.findall(r"images/results/([\w-]+)\.png\)", text))
    drawn = {name for name, e in run.experiments().items() if e.figure["draw"] not in run.pictures.WALL_CLOCK}
    assert shown == drawn == {p.stem for p in (ROOT / "docs" / "images" / "results").iterdir()}
    assert all(p.stat().st_size < 300_000 for p in (ROOT / "docs" / "images" / "results").iterdir())
