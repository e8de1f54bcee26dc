"""Grids from a file and from flags: the same grid, flags first; options swept as values, with columns of their own."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from coopsim.study.sweep import Grid, sweep

FILE = """
traces = ["traces/a.parquet", "synth:chain:8"]
policies = ["lru", "coop:placement=low,in_place=copy"]
allocators = ["arena", "cuda-caching"]
budgets = ["100%:80%:10%", "6GiB"]
band = 3
band_width = "2%"
steps = [1, 3]
cost_model = ["cost", "unit"]
torch = ["2.12.1", "2.15.0"]
alloc_conf = ["", "expandable_segments:True,garbage_collection_threshold:0.8"]
"""


def of(*words: str) -> Grid:
    """The grid that the words of a command mean."""
    from coopsim.cli import grid
    from coopsim.cli.parser import build
    from coopsim.study.sweep import grid_file

    return grid.of(build().parse_args(["sweep", *words, "-o", "r.parquet"]), grid_file.KEYS)[0]


def test_a_file_and_flags_mean_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "grid.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    grid = of("deep/grid.toml")
    flags = of(
        *("deep/traces/a.parquet", "synth:chain:8", "--policy", "lru,coop:placement=low,in_place=copy"),
        *("--allocator", "arena,cuda-caching", "--budget", "100%:80%:10%,6GiB", "--band", "3", "--band-width", "2%"),
        *("--steps", "1,3", "--cost-model", "cost,unit", "--torch", "2.12.1,2.15.0", "--alloc-conf", ""),
        *("--alloc-conf", "expandable_segments:True,garbage_collection_threshold:0.8"),
    )
    assert vars(grid) == vars(flags)
    assert list(grid.budgets) == ["100%", "90%", "80%", "6GiB"]
    assert grid.options["steps"] == [1, 3]


def test_a_flag_goes_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text('traces = "synth:chain:8"\nsteps = 4\nbudgets = "50%"\nrandom = "keep"\n')
    grid = of(str(tmp_path / "grid.toml"), "--steps", "2", "--policy", "lru")
    assert (grid.options, list(grid.policies), list(grid.budgets)) == (
        {"steps": [2], "random": "keep"},
        ["lru"],
        ["50%"],
    )
    assert len(grid.points()) == 1


def test_options_are_swept_and_have_columns(tmp_path: Path) -> None:
    confs = ["", "expandable_segments:True"]
    options = {"steps": [1, 2], "torch": ["2.12.1", "2.15.0"], "alloc_conf": confs}
    grid = Grid(("synth:unet:3",), ("lru", "coop"), ("arena", "cuda-caching"), ("200%", "70%"), options=options)
    sweep(grid, tmp_path / "r.parquet")
    df = pd.read_parquet(tmp_path / "r.parquet")
    assert len(df) == (1 + 4) * 2 * 2 * 2
    of_caching = df[df.allocator == "cuda-caching"]
    assert set(of_caching.groupby(["torch", "alloc_conf", "steps", "policy"]).size()) == {2}
    fits = of_caching.outcome == "ok"
    assert fits.any()
    assert (of_caching.peak_reserved_bytes[fits] >= of_caching.peak_bytes[fits]).all()
    assert (
        df[df.allocator == "arena"][["torch", "alloc_conf", "peak_reserved_bytes", "alloc_retries"]].isna().all().all()
    )
    from coopsim.study import figures, tables
    from coopsim.study.figures.bands import Series, series

    names = {variant for _, variant in series(df)}
    assert {"arena, steps 1", "cuda-caching, torch 2.15.0, alloc_conf default, steps 2"} <= names
    assert len(series(df)) == 2 * (1 + 4) * 2
    assert Series("lru", "cuda-caching, torch 2.12.1, alloc_conf expandable_segments:True, steps 1") in series(df)
    assert len(tables.bands(df)) == len(df)
    assert "coop, torch 2.15.0, alloc_conf expandable_segments:True, steps 2" in tables.text(df)
    assert len(figures.FigureFiles(tmp_path / "o.png").sweep(df)) == 1


def test_replay_and_sweep_say_the_same_of_the_caching_allocator(coopsim: Any, tmp_path: Path) -> None:
    flags = (
        "--allocator",
        "cuda-caching",
        "--budget",
        "150%",
        "--torch",
        "2.9.1",
        "--alloc-conf",
        "max_split_size_mb:21",
    )
    one = json.loads(coopsim("replay", "synth:unet:3", "--policy", "coop", *flags, "--json").out)
    output = tmp_path / "r.parquet"
    assert coopsim("sweep", "synth:unet:3", "--policy", "coop", *flags, "-o", output).code == 0
    row = pd.read_parquet(output).iloc[0].to_dict()
    assert (row["torch"], row["alloc_conf"]) == ("2.9.1", "max_split_size_mb:21")
    for key, value in one.items():
        if key not in ("search_ns", "failure"):
            assert row[key] == value or (value is None and pd.isna(row[key])), key
