"""What worlds of many sizes differ by is what a rank's shards differ by, to the byte (experiments/ranks)."""

import importlib
import sys
from types import ModuleType

import pandas as pd
import pytest

from tests.conftest import ROOT

ROWS = pd.read_csv(ROOT / "experiments" / "expected" / "ranks.csv")
EVEN = 128  #: up to here every weight has a multiple of the ranks as rows


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "experiments" / "ranks"))
    monkeypatch.delitem(sys.modules, "models", raising=False)
    return importlib.import_module("models")


def test_shards_are_computed_by_hand(models: ModuleType) -> None:
    for row in ROWS.itertuples():
        assert row.shard_numbers == models.MODELS[row.model].shard(row.world_size)
        assert row.state_bytes == 12 * row.shard_numbers
    assert models.MODELS["llama-8b"].shard(1) == 8_030_261_248


def test_differences_of_peaks_are_those_of_shards() -> None:
    for model, rows in ROWS[ROWS.world_size <= EVEN].groupby("model"):
        assert sorted(rows.world_size) == [8, 16, 32, 64, 128]
        assert (rows.peak_requested_bytes - rows.state_bytes).nunique() == 1, model
        assert rows.peak_requested_bytes.nunique() == 5


def test_a_job_by_its_launcher_is_that_of_the_table() -> None:
    """The FSDP2 job of experiments/ranks/jobs.py and the row of experiments/ranks/run.py are one script."""
    jobs = pd.read_csv(ROOT / "experiments" / "expected" / "rank_jobs.csv")
    launched = jobs[jobs.job == "FSDP2"].iloc[0]
    row = ROWS[(ROWS.model == "llama-8b") & (ROWS.world_size == launched.world_size)].iloc[0]
    for key in ("peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes"):
        assert launched[key] == row[key]
    assert set(jobs.outcome) == {"ok"}


@pytest.mark.slow
def test_again(models: ModuleType) -> None:
    from coopsim.run import Script, run

    train = ROOT / "experiments" / "ranks" / "train.py"
    report = run(Script(("python", str(train), "llama-1b"), card="h100-80gb", world_size=64, quiet=True))
    row = ROWS[(ROWS.model == "llama-1b") & (ROWS.world_size == 64)].iloc[0]
    assert report.peak_requested_bytes == row.peak_requested_bytes
    assert report.peak_reserved_bytes == row.peak_reserved_bytes
