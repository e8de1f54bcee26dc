"""Sweeps and maps print what they found, and need no file for it."""

import json
from pathlib import Path

import pandas as pd
import pytest


def test_a_sweep_as_json(coopsim, tmp_path: Path) -> None:
    flags = ("sweep", "synth:unet:4", "--policy", "coop,lru", "--budget", "100%,1KiB", "--steps", 1, "-j", 1)
    found = json.loads(coopsim(*flags, "--json", "-o", tmp_path / "r.parquet").out)
    table = pd.read_parquet(tmp_path / "r.parquet")
    assert (found["sweep"], found["replays"]) == (str(tmp_path / "r.parquet"), 4)
    assert [set(row) for row in found["rows"]] == [set(table.columns)] * 4
    assert [row["outcome"] for row in found["rows"]] == list(table.outcome) == ["ok", "oom"] * 2
    assert [row["overhead"] is None for row in found["rows"]] == [False, True] * 2
    assert found["rows"][1]["failure"]["needed_bytes"] > 0


@pytest.mark.parametrize("verb", ["sweep", "map"])
def test_without_a_file(coopsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.chdir(tmp_path)
    more = ("--step", "10%", "--smallest", "80%") if verb == "map" else ("--budget", "90%")
    flags = (verb, "synth:chain:4", "--policy", "lru", "--steps", 1, "-j", 1, *more)
    answer = coopsim(*flags)
    assert answer.code == 0
    assert "chain" in answer.out
    assert "-o keeps the table" in answer.err
    assert json.loads(coopsim(*flags, "--json").out)[verb] is None
    assert list(tmp_path.iterdir()) == []
