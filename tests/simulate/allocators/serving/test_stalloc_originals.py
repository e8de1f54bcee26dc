"""Plans and planned memory beside those of the program that STAlloc's authors released: ours take no more.

What the program made of the same streams lies in the folder that COOPSIM_ORIGINALS_DATA names (stalloc_plans.csv,
stalloc_online.csv, stalloc_planner_alone.csv).
"""

import csv
import os
from pathlib import Path

import pytest

from coopsim.base.types import MIB
from coopsim.simulate.allocators.serving import release
from coopsim.simulate.allocators.serving.layout import LayoutOptions, lay_out
from coopsim.simulate.allocators.serving.plain import pages
from coopsim.simulate.allocators.serving.planned import run
from tests.simulate.allocators.serving.stalloc_goldens import first_steps, requests_of

DATA = Path(os.environ.get("COOPSIM_ORIGINALS_DATA") or "/nowhere")

pytestmark = pytest.mark.skipif(
    not (DATA / "stalloc_plans.csv").exists(), reason="COOPSIM_ORIGINALS_DATA names no folder of the originals' answers"
)


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / f"stalloc_{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_plans() -> None:
    """Of the first two steps: the plan's height above the most bytes that are alive at once."""
    found = rows("plans")
    assert found
    for row in found:
        plan = lay_out(requests_of(row["trace"], 5), LayoutOptions(steps=2)).plan
        theirs = int(row["static_height"]) / int(row["static_peak_512"])
        assert plan.height / plan.lower_bound <= theirs + 1e-9, row


def test_one_step_alone() -> None:
    for row in rows("planner_alone"):
        plan = lay_out(requests_of(row["trace"], 5), LayoutOptions()).plan
        assert plan.lower_bound <= int(row["lower_bound"]) <= int(row["height"]), row
        assert plan.height <= int(row["height"]), row


def test_memory_of_the_device() -> None:
    """Served as many steps, with as many planned: peak of what is taken of the device."""
    for row in rows("online"):
        requests = first_steps(requests_of(row["trace"], 5), int(row["steps_served"]))
        ours = run(requests, LayoutOptions(steps=int(row["steps_planned"])))
        assert ours.peak_reserved <= int(row["peak_device_bytes"]), (row, ours)


def test_its_rules() -> None:
    """With our plan: as many mismatches; as much memory, or less where their plan is higher, if it alone decides.

    Where requests find places of the plan free or in use (SPOS, and where experts reuse them), the plans' places
    matter: memory is near.
    """
    for row in rows("online"):
        requests = first_steps(requests_of(row["trace"], 5), int(row["steps_served"]))
        reuse = "STALLOC_REUSE_STATIC=1" in row["settings"]
        largest = 100_000 if "max_split_size_mb" in row["settings"] else 128
        ours = release.run(requests, release.ReleaseSettings(reuse=reuse, max_split=largest * MIB))
        theirs = int(row["peak_device_bytes"])
        assert ours.details["mismatches"] == int(row["mismatches"]), row
        if reuse or int(row["mismatches"]):
            assert 0.97 * theirs < ours.peak_reserved < 1.03 * theirs, (row, ours)
        else:
            higher = pages(int(row["static_reserved"])) - ours.details["pool_bytes"]
            assert ours.peak_reserved + higher == theirs, (row, ours)
