"""Policies of users: a score, a search, a folder of files; found everywhere, checked like ours, refused in one line."""

import json
import textwrap
from pathlib import Path

import pandas as pd
import pytest

from coopsim.base.types import CoopsimError, Divisor
from coopsim.simulate import policies
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.policies import Policy
from coopsim.simulate.replay import measure, replay
from coopsim.study.validate import validate
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes
from coopsim.trace.schedule import Schedule
from tests.simulate.policies.judged import judge_synthetic


def least_score(memory, need):
    """Greedy search, written as a user would."""
    candidates = [p.value for p in memory.blocks() if p.can_go]
    scores = {v: memory.score(v) for v in candidates}
    return [min(candidates, key=scores.__getitem__)] if candidates else []


def dte_score(cost, recency, nbytes, hole):
    """DTE's score, written as a user would."""
    return cost / recency / hole


def not_for_numba(cost, recency, nbytes, hole):
    """The same, in words that no compiler knows."""
    return cost / recency / {"hole": hole, 1: None}["hole"]


def same(a: Schedule, b: Schedule) -> bool:
    """Whether two replays did the same, action for action."""
    return [row[:8] for row in a.rows()] == [row[:8] for row in b.rows()]


@pytest.mark.parametrize("score", [dte_score, not_for_numba])
def test_a_score_of_ones_own(bert: Trace, score: object) -> None:
    budget = peak_bytes(bert, 512) // 2
    mine = Policy(name="mine", summary="", source="", score=score)  # type: ignore[arg-type]
    ours = replay(bert, Policy(name="dte", summary="", source="", divisor=Divisor.HOLE), budget, steps=1)
    found = replay(bert, mine, budget, steps=1)
    assert same(found, ours)
    assert found.header["own_functions"] == {"score": "compiled" if score is dte_score else "Python"}


def test_a_search_of_ones_own(bert: Trace) -> None:
    budget = peak_bytes(bert, 512) * 7 // 10
    mine = Policy(name="mine", summary="", source="", divisor=Divisor.BYTES, choose=least_score)
    found = replay(bert, mine, budget, steps=1)
    assert found.header["evictions"] > 0
    dtr = Policy(name="dtr", summary="", source="", divisor=Divisor.BYTES)
    assert same(found, replay(bert, dtr, budget, steps=1))
    assert validate(found, bert) == []


def test_a_search_of_ones_own_counts_what_it_looks_at(bert: Trace) -> None:
    looked = []

    def cheapest(memory, need):
        blocks = memory.blocks()
        looked.append(len(blocks))
        scores = [(memory.score(b.value), b.value) for b in blocks if b.can_go]
        return [value for _, value in sorted(scores)[:8]]

    mine = Policy(name="mine", summary="", source="", divisor=Divisor.BYTES, choose=cheapest)
    found = measure(bert, mine, peak_bytes(bert, 512) * 9 // 10, options=ReplayOptions(1))
    assert found["search_visits"] == sum(looked) > 0
    assert found["search_scores"] > 0


def test_exceptions_and_nonsense_end_in_one_line(bert: Trace) -> None:
    def broken(memory, need):
        raise LookupError("no idea")

    budget = peak_bytes(bert, 512) // 2
    for choose, says in ((broken, "LookupError: no idea"), (lambda *_: [0], "value 0 cannot be evicted now")):
        with pytest.raises(CoopsimError, match=says):
            measure(bert, Policy(name="mine", summary="", source="", choose=choose), budget, options=ReplayOptions(1))

    def no_score(cost, recency, nbytes, hole):
        return [][int(cost)]

    with pytest.raises(CoopsimError, match="mine"):
        measure(
            bert,
            Policy(name="mine", summary="", source="", score=lambda *a: no_score(*a)),
            budget,
            options=ReplayOptions(1),
        )


FILE = """
    from coopsim.simulate.policies import Policy
    from coopsim.base.types import Divisor

    Mine = Policy(name="dropped-in", summary="", source="a test", divisor=Divisor.BYTES)
"""


OWN = """
    from coopsim.simulate.policies import Policy

    Rooted = Policy("rooted", "", "a test", divisor="bytes")
    Coop = Policy("coop", "", "a test", divisor="bytes")
"""


def test_policies_of_a_file_are_shown_by_name(coopsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py"):
        Path(name).write_text(textwrap.dedent(OWN))
    specs = ["a.py:Rooted", "a.py:Rooted:placement=low", "coop", "a.py:Coop"]
    called = ["rooted", "rooted:placement=low", "coop", "a.py:Coop"]
    assert list(policies.shown(specs).values()) == called
    assert policies.shown(["a.py:Rooted", "b.py:Rooted"]) == {
        "a.py:Rooted": "a.py:Rooted",
        "b.py:Rooted": "b.py:Rooted",
    }
    grid = ("synth:chain:8", "--budget", "90%", "-j", "1", "-o", "r.parquet", "--policy", ",".join(specs))
    assert coopsim("sweep", *grid).code == 0
    assert pd.read_parquet("r.parquet").policy.tolist() == called
    answer = coopsim("replay", "synth:chain:8", "--policy", "a.py:Rooted", "--budget", "80%", "--json")
    assert json.loads(answer.out)["policy"] == "rooted"


def test_a_file_in_a_folder_is_found_everywhere(coopsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(textwrap.dedent(FILE))
    assert "dropped-in" not in policies.names()
    monkeypatch.setenv("COOPSIM_POLICIES", str(tmp_path))
    assert "dropped-in" in policies.names()
    assert "dropped-in" in coopsim("list", "policies").out
    replayed = coopsim("replay", "synth:chain:24", "--policy", "dropped-in", "--budget", "60%")
    assert (replayed.code, "dropped-in" in replayed.out) == (0, True)
    swept = coopsim("sweep", "synth:chain:24", "--policy", "dropped-in,lru", "-o", tmp_path / "r.parquet", "-j", "1")
    assert (swept.code, "dropped-in" in swept.out) == (0, True)
    judge_synthetic("synth:unet:4", "dropped-in", "arena")


@pytest.mark.parametrize(
    ("text", "spec", "says"),
    [
        (None, "mine.py:Mine", "no such policy file"),
        ("x = 1", "mine.py:Mine", "defines no Policy"),
        ("import nothing_of_the_kind", "mine.py:Mine", "ModuleNotFoundError"),
        ("def (", "mine.py:Mine", "SyntaxError"),
        (FILE, "mine.py:Mein", "did you mean Mine"),
        (FILE, "mine.py:Mine:search=windo", "did you mean window"),
    ],
)
def test_files_refused(
    coopsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, spec: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("mine.py").write_text(textwrap.dedent(text))
    answer = coopsim("replay", "synth:chain:24", "--policy", spec, "--budget", "60%")
    assert answer.code == 2
    assert says in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_name_that_is_taken_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(textwrap.dedent(FILE).replace("dropped-in", "coop"))
    monkeypatch.setenv("COOPSIM_POLICIES", str(tmp_path))
    with pytest.raises(CoopsimError, match="already a policy 'coop'"):
        policies.names()
