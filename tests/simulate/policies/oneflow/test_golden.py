"""The same replays, against their own figures of the day when test_rows.py found them equal to the authors' program.

`python -m tests.simulate.policies.oneflow.test_golden` writes golden.csv anew; do that only where test_rows.py passes.
"""

import csv
from collections.abc import Iterable
from pathlib import Path

import pytest

from coopsim.base.files import replacing
from coopsim.trace.named import shipped
from tests.simulate.policies.oneflow.runs import PERCENTS, POLICIES, budget_of, digest, figures, lines, run, trace_of

GOLDEN = Path(__file__).with_name("golden.csv")
SYNTHETIC = ("synth:chain:24", "synth:tree:4", "synth:unet:4", "synth:holes:12")
EVERY = (*SYNTHETIC, *(name for name in shipped() if "@" not in name))
QUICK = (*SYNTHETIC, "bert-large", "densenet-121", "moe", "resnet-50", "spos", "unet")


def rows(names: Iterable[str] = EVERY) -> list[dict[str, str]]:
    found = []
    for name in names:
        trace = trace_of(name)
        for (policy, group), ours in POLICIES.items():
            for percent in PERCENTS:
                schedule = run(trace, ours, budget_of(trace, percent))
                row = {"trace": name, "policy": f"{policy}-g{group}", "percent": percent}
                actions = lines(schedule)
                row |= figures(schedule) | {"rows": len(actions), "rows_hash": digest(actions)}
                found.append({key: str(value) for key, value in row.items()})
    return found


@pytest.mark.parametrize("names", [QUICK, pytest.param(EVERY, marks=pytest.mark.slow)])
def test_as_on_the_day_of_the_proof(names: tuple[str, ...]) -> None:
    with GOLDEN.open(newline="") as file:
        golden = [row for row in csv.DictReader(file) if row["trace"] in names]
    ours = rows(names)
    assert [row for row, expected in zip(ours, golden, strict=True) if row != expected] == []


if __name__ == "__main__":
    found = rows()
    with replacing(GOLDEN) as part, part.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
