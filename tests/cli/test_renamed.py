"""Old names of options and keys work for one release, and say so on stderr."""

import json
from pathlib import Path

import pandas as pd
import pytest

from coopsim import policies, renamed
from coopsim.schedule import load, save
from tests.conftest import BERT

CONF = ("--alloc-conf", "--conf")
TINY = ("synth:chain:4", "--policy", "lru", "--budget", "100%", "--steps", "1")


def test_old_flags(coopsim, tmp_path: Path) -> None:
    new = coopsim("replay", *TINY, "--cost-model", "bytes")
    old = coopsim("replay", *TINY, "--decide-by", "bytes")
    assert (old.code, old.out.splitlines()[1]) == (0, new.out.splitlines()[1])
    assert "cost model bytes" in old.out
    assert "note: --decide-by is called --cost-model now" in old.err
    assert "--decide-by" not in new.err
    table = tmp_path / "r.parquet"
    swept = coopsim("sweep", TINY[0], "--decide-by", "bytes,unit", "--budget", "100%", "--policy", "lru", "-o", table)
    assert swept.err.count("--decide-by is called --cost-model now") == 1
    assert list(pd.read_parquet(table).cost_model) == ["bytes", "unit"]


def test_old_flags_of_other_verbs(coopsim, tmp_path: Path) -> None:
    flags = ("synth:chain:4", "--policy", "lru", "--steps", 1, "--step", "10%", "-j", 1, "--json")
    new, old = (
        coopsim("map", *flags, a, "90%", b, "70%") for a, b in (("--largest", "--smallest"), ("--from", "--to"))
    )
    assert new.out == old.out
    assert "--from is called --largest now" in old.err
    assert "--to is called --smallest now" in old.err
    found = json.loads(new.out)
    assert (found["largest"], found["smallest"]) == (found["from"], found["to"]) == ("90%", "70%")
    new, old = (coopsim("advise", BERT, "--memory", "80GiB", flag, "max_split_size_mb:32", "--json") for flag in CONF)
    assert new.out == old.out
    assert "--conf is called --alloc-conf now" in old.err


def test_old_keys(coopsim, tmp_path: Path) -> None:
    answer = coopsim("replay", *TINY, "--json")
    found = json.loads(answer.out)
    assert found["decide_by"] == found["cost_model"] == "cost"
    assert found["max_pieces"] == found["max_blocks"] > 0
    assert all(old in answer.err and new in answer.err for old, new in renamed.KEYS.items())
    failed = json.loads(coopsim("replay", *TINY[:4], "1KiB", "--json").out)["failure"]
    assert failed["fixed_bytes"] == failed["non_evictable_bytes"]


def test_files_of_the_release_before(coopsim, tmp_path: Path) -> None:
    coopsim("replay", *TINY, "-o", tmp_path / "s.parquet")
    schedule = load(tmp_path / "s.parquet")
    schedule.header["decide_by"] = schedule.header.pop("cost_model")
    save(schedule, tmp_path / "old.parquet")
    assert load(tmp_path / "old.parquet").header["cost_model"] == "cost"
    (tmp_path / "grid.toml").write_text('traces = ["synth:chain:4"]\npolicies = ["lru"]\ndecide_by = ["unit"]\n')
    answer = coopsim("sweep", tmp_path / "grid.toml", "-o", tmp_path / "r.parquet")
    assert answer.code == 0
    assert "decide_by is called cost_model now" in answer.err


@pytest.mark.parametrize(
    ("old", "new"), [*renamed.POLICIES.items(), ("coop:cost=own,placement=homes", "coop:cost=own,placement=preferred")]
)
def test_old_policies(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    renamed.policy.cache_clear()
    renamed.choice.cache_clear()
    assert policies.find(old) == policies.find(new)
    assert policies.find(old).name == new
    said = capsys.readouterr().err
    assert (said.count("\n"), new.rpartition(",")[2] in said) == (1, True)
