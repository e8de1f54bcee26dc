"""The trace of a schedule is found wherever it lay when the schedule was made."""

from pathlib import Path
from typing import Any

import pytest

from coopsim.trace import save
from coopsim.trace.synth import make


@pytest.fixture
def schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coopsim: Any) -> Path:
    """A schedule, in a folder of its own, of a trace in another; the current folder is a third."""
    monkeypatch.setenv("COOPSIM_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("there", "schedules", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "there")
    save(make("synth:chain:8"), tmp_path / "there" / "t.parquet")
    out = tmp_path / "schedules" / "s.parquet"
    assert coopsim("replay", "t.parquet", "--policy", "coop", "--budget", "80%", "-o", out).code == 0
    monkeypatch.chdir(tmp_path / "here")
    return out


def test_found_where_it_was(schedule: Path, coopsim: Any) -> None:
    assert coopsim("validate", schedule).code == 0
    assert coopsim("plot", schedule).code == 0
    assert coopsim("export", schedule, "--perfetto", "f.json").code == 0


def test_lost(schedule: Path, coopsim: Any) -> None:
    place = schedule.parent.parent / "there" / "t.parquet"
    save(make("synth:chain:9"), place)  # another trace in its place
    code, out, err = coopsim("validate", schedule)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    for folder in (schedule.parent, Path.cwd(), Path.cwd() / "traces", place):
        assert str(folder) in err
    assert "with --trace" in err


def test_a_synthetic_trace_is_made_again(schedule: Path, coopsim: Any) -> None:
    assert coopsim("replay", "synth:unet:4", "--policy", "coop", "--budget", "80%", "-o", schedule).code == 0
    assert coopsim("validate", schedule).code == 0


def test_no_cache_is_no_error(schedule: Path, coopsim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (schedule.parent / "file").write_text("")
    monkeypatch.setenv("COOPSIM_CACHE_DIR", str(schedule.parent / "file"))
    again = ("replay", "../there/t.parquet", "--policy", "coop", "--budget", "80%", "-o", schedule)
    assert coopsim(*again).code == 0
    assert b"there" not in schedule.read_bytes()  # the place is nothing of the schedule's
    assert "and no longer" not in coopsim("validate", schedule).err


def test_a_trace_is_drawn_by_its_name_or_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coopsim: Any) -> None:
    monkeypatch.chdir(tmp_path)
    save(make("synth:chain:8"), "t.parquet")
    for what in ("gpt-2", "t.parquet", "synth:unet"):
        assert coopsim("plot", what).code == 0, what
    assert sorted(p.name for p in tmp_path.glob("*.png")) == [
        "bytes_chain-8.png",
        "bytes_gpt-2.png",
        "bytes_unet-4.png",
    ]
    code, out, err = coopsim("plot", "t.parquet", "--timeline")
    assert (code, out) == (2, "")
    assert "neither a schedule" in err
