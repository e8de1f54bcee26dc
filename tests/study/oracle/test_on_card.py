"""What the allocator of an H100 did (experiments/gpu/results), beside the simulation."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopsim.fitting.advise.selfcheck import check
from coopsim.simulate.allocators.caching import case
from coopsim.simulate.allocators.caching.trial import attempt
from coopsim.study.oracle.against import QUANTITIES, figures
from coopsim.trace import schedule as schedules
from coopsim.trace import snapshot
from coopsim.trace.request_rows import ALLOCATE, KIND
from coopsim.trace.requests_of import of_schedule
from coopsim.trace.snapshot.requests import of_snapshot
from tests.conftest import ROOT

CARD = ROOT / "experiments" / "gpu" / "results" / "nvidia-h100-80gb-hbm3-2026-11-26"


def performed(folder: Path, pattern: str) -> Iterator[tuple[str, dict[str, Any], schedules.Schedule]]:
    for file in sorted(folder.glob(pattern)):
        found = json.loads(file.read_text())
        for policy, of_card in found["policies"].items():
            name = f"{found['model']}-{policy}"
            yield name, of_card, schedules.load(folder / f"caching-{name}.parquet")


@pytest.mark.parametrize(
    ("folder", "pattern", "runs"),
    [(CARD / "requests-2.13", "requests213-*.json", 8), (CARD, "requests-*.json", 12)],
    ids=["2.13", "2.11"],
)
def test_requests_of_schedules(folder: Path, pattern: str, runs: int) -> None:
    """Every figure of the card, and the first request at which it did otherwise than the schedule."""
    found_runs = list(performed(folder, pattern))
    assert len(found_runs) == runs
    for name, of_card, schedule in found_runs:
        requests, h = of_schedule(schedule), schedule.header
        ops = [*requests.lines(), "p"]
        asked = case.AllocatorCase(h["alloc_conf"], h["budget_bytes"], ops, case.read(ops))
        *answers, last = case.answer(asked, of_card["torch"], driver="cuda")
        found = figures(last)
        assert {key: found[key] for key in QUANTITIES} == {k: v[1] for k, v in of_card["statistics"].items()}, name
        planned = schedule.address[requests.source[requests.rows[:, KIND] == ALLOCATE]] < 0
        differ = np.flatnonzero(planned != [line.startswith("oom ") for line in answers])
        assert (differ[0] if len(differ) else len(answers)) == of_card["equal"], name


def test_addresses_move_peaks_up_to_2_11() -> None:
    """swin-t, whose least memory on the card differs from that with segments from the lowest address up."""
    found = snapshot.read(CARD / "snapshot-swin-t.pickle")
    first = json.loads((CARD / "smallest-swin-t.json").read_text())["tries"][0]
    requests = of_snapshot(found)
    assert attempt(requests, "2.11.0", found.conf).peak_reserved_bytes != first["peak_reserved_bytes"]
    assert (
        len({attempt(requests, "2.14.1", found.conf, driver=d).peak_reserved_bytes for d in ("first-fit", "cuda")}) == 1
    )


def test_histories_with_recorded_segments() -> None:
    """Every block of three histories is where the card had it."""
    placed = 0
    for file in sorted(CARD.glob("snapshot-*.pickle")):
        found = snapshot.read(file)
        agreement = check(found, of_snapshot(found), torch="2.11.0")
        assert agreement.whole
        assert agreement.placed == agreement.requests, file.name
        placed += agreement.placed
    assert placed == 9398
