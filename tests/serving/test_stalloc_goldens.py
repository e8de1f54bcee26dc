"""Planned memory on eight streams: as on the day when it took no more than STAlloc's released program on any."""

import csv
from itertools import pairwise

from tests.serving.stalloc_goldens import DIFFERENT, GOLDENS, rows


def test_as_on_that_day_and_no_worse_for_knowing_more() -> None:
    with GOLDENS.open(newline="") as file:
        golden = list(csv.DictReader(file))
    found = rows()
    assert found == golden
    assert max(int(row["plan_above_bound"]) for row in found) <= 512
    for name in DIFFERENT:
        reserved = [int(row["reserved"]) for row in found if row["trace"] == name]
        assert all(more <= less for less, more in pairwise(reserved)), (name, reserved)
