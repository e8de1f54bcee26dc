"""coopsim list: what there is, in a table that can be read."""

import json
from typing import Any

from coopsim import policies


def test_policies_say_what_they_do(coopsim: Any) -> None:
    lines = coopsim("list", "policies").out.splitlines()
    rows = {line.split()[0]: line for line in lines[2:] if line and ":" not in line.split()[0]}
    assert set(rows) == set(policies.names())
    for name, row in rows.items():
        assert policies.find(name).summary in row
        assert policies.find(name).source in row
        assert (" yes " in row) == name.startswith("foresight")
    assert "staleness  greedy" not in "\n".join(lines)


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
    assert "--choices is of policies" in answer.err
