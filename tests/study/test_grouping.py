"""What differs in a setting is never averaged: for every option and every trace, two values give two lines."""

from dataclasses import fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pandas as pd
import pytest

import coopsim
from coopsim.base.text import apart, said
from coopsim.base.types import CoopsimError
from coopsim.cards.link import Link
from coopsim.simulate.allocators import cuda_caching
from coopsim.simulate.metrics import RESULTS, SETTINGS
from coopsim.simulate.options import COLUMNS, ReplayOptions
from coopsim.study import tables
from coopsim.study.figures import feasibility, lines
from coopsim.study.figures.bands import series
from coopsim.study.grouping import grouping
from coopsim.study.sweep import Grid, sweep
from coopsim.study.sweep.options import NAMES
from coopsim.trace import load_trace, save

TRACE = "synth:chain:4"
VALUES: dict[str, list[Any]] = {
    "link": ["pcie3-x16", "pcie5-x16"],
    "torch": ["2.6.0", "2.15.0"],
    "alloc_conf": ["", "expandable_segments:True"],
}


def two_values(name: str) -> list[Any]:
    """Two values of an option, from its declaration; the text of one says nothing, so there they are given."""
    if name in VALUES:
        return VALUES[name]
    kinds = get_args(get_type_hints(ReplayOptions)[name]) or (get_type_hints(ReplayOptions)[name],)
    words = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, StrEnum)]
    if words:
        return [str(value) for value in list(words[0])[:2]]
    default = next(f.default for f in fields(ReplayOptions) if f.name == name) or (1 << 29 if int in kinds else 8.0)
    assert isinstance(default, int | float)
    return [default, 2 * default]


def says_twice(df: pd.DataFrame) -> None:
    """Whatever shows the table shows two lines, each of its own rows, and says what they differ in."""
    bands, (first, second) = tables.bands(df), series(df).values()
    assert [len(first), len(second), *bands.points] == [len(df) // 2] * 4
    assert len(tables.feasible(df)) == len(tables.smallest_budgets(df)) == 2
    for text in (tables.text(df), tables.feasible_text(df)):
        body = [line for line in text.split("\n\n")[0].splitlines()[3:] if line]
        assert len({line.split("  ")[0] for line in body}) == 2, text
    for figure in (lines.draw(df, "overhead"), feasibility.draw(df)):
        named = [t.get_text() for legend in figure.legends for t in legend.get_texts()]
        rows = [t.get_text() for ax in figure.axes for t in ax.get_yticklabels()]
        told = [text for text in (*named, *rows) if text.startswith(("swap", "random"))]
        assert len(told) == len(set(told)) == 2, told


@pytest.mark.parametrize("name", NAMES)
def test_two_values_of_an_option_give_two_lines(name: str, tmp_path: Path) -> None:
    memory = "cuda-caching" if name in ("torch", "alloc_conf") else "arena"
    options = {"steps": [1]} | {name: two_values(name)}
    policy = "random" if name == "seed" else "swap-lru"  # of what chance has no part in, seeds are one
    df = sweep(Grid([TRACE], [policy], [memory], ["90%"], options=options), tmp_path / "r")
    assert COLUMNS.get(name, name) in df.columns
    says_twice(df)
    says_twice(pd.concat([df, df.assign(budget_bytes=df.budget_bytes + 512)], ignore_index=True))


def test_every_setting_and_every_column_of_ones_own_is_told_apart() -> None:
    df = coopsim.sweep(TRACE, "swap-lru", "90%", steps=1, allocators="cuda-caching")
    for column in (*SETTINGS, "run"):
        two = pd.concat([df.assign(**{column: value}) for value in (1, 2)], ignore_index=True)
        assert column not in RESULTS
        assert len(tables.bands(two)) == len(series(two)) == len(tables.feasible(two)) == 2, column
    derived = df.assign(percent=100 * df.overhead)
    assert grouping(pd.concat([derived, derived.assign(budget_bytes=1, percent=0.0)])).varying == []
    with pytest.raises(CoopsimError, match=r"differ in overhead, and no column says why \(chain-4, swap-lru"):
        tables.text(pd.concat([df, df.assign(overhead=9.0)]))


@pytest.mark.parametrize("differ", ["trace_hash", "card", "precision"])
def test_two_traces_of_one_label_are_two(differ: str) -> None:
    df = coopsim.sweep(TRACE, "coop", "90%", steps=1)
    two = pd.concat([df.assign(**{differ: value}) for value in ("one", "two")], ignore_index=True)
    names = tables.bands(two).trace.tolist()
    assert names == ["chain-4 (one)", "chain-4 (two)"] == [ax.get_title() for ax in lines.draw(two, "overhead").axes]
    assert [setting["trace"] for setting, _ in tables.feasible(two)] == names
    assert [part.splitlines()[0] for part in tables.text(two).split("\n\n")[::3]][:2] == [f"{n}, arena" for n in names]


def test_traces_get_labels_of_their_own_or_those_that_they_are_given(tmp_path: Path, coopsim: Any) -> None:
    small, large = load_trace(TRACE), load_trace("synth:chain:5")
    for name, trace, batch in (("a", small, 8), ("b", large, 16)):
        save(replace(trace, header={"model": "net.py:step"}), tmp_path / f"{name}.parquet")
        save(replace(trace, header={"model": "net.py:step", "batch": batch}), tmp_path / f"{name}-known.parquet")

    def called(*names: str) -> list[str]:
        return [s.trace for s in Grid([n.replace("@", f"{tmp_path}/") for n in names], ["coop"]).settings()]

    assert called("@a.parquet", "@b.parquet") == ["net.py:step (a)", "net.py:step (b)"]
    assert called("@a-known.parquet", "@b-known.parquet") == ["net.py:step (batch 8)", "net.py:step (batch 16)"]
    assert called("tiny=@a.parquet", "@b.parquet", "@b.parquet") == ["tiny", "net.py:step"]
    loaded = [load_trace(tmp_path / f"{name}.parquet") for name in "ab"]
    assert all(s.trace.startswith("net.py:step (peak ") for s in Grid(loaded, ["coop"]).settings())
    assert [s.trace for s in Grid([loaded[0], loaded[1].named("b")], ["coop"]).settings()] == ["net.py:step", "b"]
    ran = coopsim("sweep", f"{tmp_path}/a.parquet", f"{tmp_path}/b.parquet", "--policy", "coop", "--budget", "90%")
    assert [line for line in ran.out.splitlines() if ", arena" in line][::3] == [
        "net.py:step (a), arena",
        "net.py:step (b), arena",
    ]
    assert said("host_memory_bytes", 1 << 40) != said("host_memory_bytes", (1 << 40) + 1)
    assert apart(["x", "x"], [{"batch": None}, {"batch": 2}]) == ["x", "x (batch 2)"]


def test_a_trace_is_named_by_its_card_where_a_link_depends_on_it() -> None:
    """The rows are the same; what copies to the host take is not."""
    rows = load_trace(TRACE)
    a, b = (replace(rows, header={"model": "net", "card": card}) for card in ("rtx-3060", "h100-80gb"))
    df = coopsim.sweep([a, b], ["swap-lru"], ["60%"], steps=1)
    assert df.trace.tolist() == ["net (rtx-3060)", "net (h100-80gb)"]
    assert df.link.nunique() == df.overhead.nunique() == 2


def test_settings_that_a_table_would_show_alike_are_refused_before_anything_runs() -> None:
    links = [Link("mine", rate, rate) for rate in (1000, 2000)]
    with pytest.raises(CoopsimError, match=r"look alike in a table .*mine.*different names"):
        Grid([TRACE], ["swap-lru"], options={"link": links}).settings()
    drivers = [cuda_caching(driver=driver) for driver in ("first-fit", "cuda")]
    assert len(tables.bands(coopsim.sweep(TRACE, "coop", "90%", allocators=drivers, steps=1))) == 2
    free_of_copies = Grid([TRACE], ["coop"], options={"link": ["pcie3-x16", "pcie5-x16"]})
    assert len(free_of_copies.settings()) == 1, "one replay, not a band of two"


def test_what_is_one_in_each_trace_stands_beside_its_label() -> None:
    df = pd.concat([coopsim.sweep(TRACE, "coop", "90%", steps=n).assign(trace=f"t{n}", trace_hash=n) for n in (1, 2)])
    assert tables.bands(df).trace.tolist() == ["t1, steps 1", "t2, steps 2"]
    assert tables.bands(tables.bands(df).assign(outcome="ok")).trace.tolist() == ["t1, steps 1", "t2, steps 2"]
