"""coopsim list: what there is, in a table that can be read."""

import json
import re
import sys
from typing import Any

import pytest

from coopsim.simulate import policies


def test_policies_say_what_they_do(coopsim: Any) -> None:
    lines = coopsim("list", "policies").out.splitlines()
    rows: dict[str, str] = {}
    for line in lines[2 : lines.index("", 2)]:
        if not line.startswith(" "):
            name = line.split()[0]
        rows[name] = " ".join([*rows.get(name, "").split(), *line.split()])
    assert set(rows) == set(policies.names())
    for name, row in rows.items():
        found = policies.find(name)
        assert row == f"{name} {'yes' if found.plans else 'no'} {found.summary}; {found.source}"
    assert max(map(len, lines)) <= 100


def test_all_of_it(coopsim: Any) -> None:
    answer = coopsim("list")
    assert answer.code == 0
    assert re.search(r"^bert-large +30\.11 GiB +16 +BERT-Large pre-training", answer.out, re.MULTILINE)
    assert re.search(r"^bert-large@h100 +30\.15 GiB +16 +BERT-.* measured on an NVIDIA H", answer.out, re.MULTILINE)
    for line in ("coop ", "arena ", "bert-large ", "a100-80gb "):
        assert f"\n{line}" in answer.out
    found = json.loads(coopsim("list", "--json").out)
    assert list(found) == ["policies", "traces", "allocators", "models", "hardware", "links"]
    assert found["allocators"] == json.loads(coopsim("list", "allocators", "--json").out)


def test_help_is_a_verb_too(coopsim: Any) -> None:
    assert coopsim("help").out == coopsim("--help").out
    assert coopsim("help", "sweep") == coopsim("sweep", "--help")
    assert "coopsim sweep" in coopsim("help", "sweep").out
    assert coopsim("help", "swep").code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion(coopsim: Any, shell: str) -> None:
    pytest.importorskip("shtab")
    script = coopsim("completion", shell).out
    assert all(word in script for word in ("replay", "sweep", "--cost-model"))
    assert "decide-by" not in script or shell == "bash"


def test_completion_says_what_it_needs(coopsim: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    answer = coopsim("completion", "bash")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "coopsim: completion needs shtab: pip install 'coopsim[completion]'\n"


def test_their_choices(coopsim: Any) -> None:
    lines = coopsim("list", "policies", "--choices").out.splitlines()
    assert lines[0].split()[:4] == ["policy", "cost", "divisor", "recency"]
    assert next(line for line in lines if line.startswith("coop ")).split()[1:5] == [
        "set",
        "nothing",
        "staleness",
        "window",
    ]
    row = next(r for r in json.loads(coopsim("list", "policies", "--json").out) if r["policy"] == "foresight")
    assert (row["plans"], row["planning"], row["cost"]) == ("yes", "repeat", "ancestors")


def test_only_policies_have_choices(coopsim: Any) -> None:
    answer = coopsim("list", "hardware", "--choices")
    assert (answer.code, answer.out) == (2, "")
    assert "--choices is for policies" in answer.err
