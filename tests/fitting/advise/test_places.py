"""Which of two free blocks of one size serves a request hangs on where the driver put the segments."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopsim.fitting.advise.selfcheck import best, check, places
from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.trace.request_rows import ALLOCATE
from coopsim.trace.snapshot import Snapshot, read
from coopsim.trace.snapshot.model import SnapshotBlock, SnapshotEvent, SnapshotSegment
from coopsim.trace.snapshot.requests import device_bytes, of_snapshot
from coopsim.trace.snapshot.rewind import rewind
from tests.trace.snapshot.history import History

MIB = 1 << 20
HIGH, LOW = 0x7F0040000000, 0x7F0000000000
FOLDER = os.environ.get("COOPSIM_SNAPSHOTS", "")  # of *.pickle, of real cards


def _two_segments(*, second: int = LOW) -> Snapshot:
    """Two segments of 20 MiB, each full but for its last 2 MiB; then a request that either could serve."""
    events, held = [], []
    for base in (HIGH, second):
        events.append(SnapshotEvent("segment_alloc", base, 20 * MIB, 0))
        for at in (base, base + 9 * MIB):
            events.append(SnapshotEvent("alloc", at, 9 * MIB, 0))
            held.append(at)
    last = min(HIGH, second) + 18 * MIB
    events.append(SnapshotEvent("alloc", last, 2 * MIB, 0))
    segments = []
    for base in sorted((HIGH, second)):
        blocks = [SnapshotBlock(at, 9 * MIB, 9 * MIB, "allocated") for at in held if base <= at < base + 20 * MIB]
        state = "allocated" if base + 18 * MIB == last else "free"
        blocks.append(SnapshotBlock(base + 18 * MIB, 2 * MIB, 2 * MIB, state))
        segments.append(SnapshotSegment(base, 20 * MIB, 0, True, False, tuple(blocks)))
    return Snapshot("s.pickle", 0, "", tuple(segments), tuple(events))


@pytest.mark.parametrize("second", [LOW, HIGH + 20 * MIB])
def test_at_recorded_addresses(second: int) -> None:
    snapshot = _two_segments(second=second)
    found = check(snapshot, of_snapshot(snapshot), torch="2.11.0")
    assert (found.whole, found.placed) == (True, 5)
    assert "all of them at the recorded address (segments are placed where they were recorded)" in found.text()


def test_first_fit_takes_the_other_one() -> None:
    snapshot = _two_segments()
    requests = of_snapshot(snapshot)
    recorded = [snapshot.events[at].address for at in requests.source]
    first_fit, _ = CachingAllocator("2.11.0").run(requests.rows)
    assert [int(a) - int(first_fit[0]) for a in first_fit] != [a - recorded[0] for a in recorded]
    placed, _ = CachingAllocator("2.11.0", places=places(snapshot)).run(requests.rows)
    assert placed.tolist() == recorded


def test_a_place_of_another_size_or_that_is_taken_is_not_used() -> None:
    rows = np.array([(ALLOCATE, n, 12 * MIB, 0) for n in range(3)], np.int64)
    where = [(HIGH, 12 * MIB), (HIGH + 2 * MIB, 12 * MIB), (LOW, 14 * MIB)]
    answers, _ = CachingAllocator("2.6.0", places=np.array(where)).run(rows)
    assert answers.tolist() == [HIGH, 0, 12 * MIB]


def test_segments_from_before_the_history_are_placed_too() -> None:
    snapshot = _two_segments()
    cut = Snapshot("s.pickle", 0, "", snapshot.segments, snapshot.events[-1:])
    found = check(cut, of_snapshot(cut), torch="2.6.0")
    assert (found.requests, found.placed) == (1, 1)


@pytest.mark.skipif(not FOLDER, reason="COOPSIM_SNAPSHOTS names no folder of snapshots of real cards")
def test_of_real_cards(tmp_path: Path, coopsim: Any) -> None:
    """Every request at its address, by the rules of a version that can have written it; imported, as much reserved."""
    files = sorted(Path(FOLDER).glob("*.pickle"))
    assert files
    for file in files:
        snapshot = read(file)
        total = device_bytes(snapshot)
        found = best(snapshot, of_snapshot(snapshot, total_bytes=total), total_bytes=total)
        assert found.requests == found.agreeing == found.placed > 0, file
        out = tmp_path / "t.parquet"
        assert coopsim("import", "torch-snapshot", file, "-o", out).code == 0
        rows = json.loads(coopsim("requests", out, "--json", "--torch", found.torch).out)["allocators"]
        assert rows[0]["peak_reserved_bytes"] == _peak_reserved(snapshot), file


def _peak_reserved(snapshot: Snapshot) -> int:
    reserved = [sum(segment.nbytes for segment in rewind(snapshot))]
    for event in snapshot.events:
        sign = {"segment_alloc": 1, "segment_free": -1}.get(event.action, 0)
        reserved.append(reserved[-1] + sign * event.nbytes)
    return max(reserved)


def test_an_imported_history_reserves_as_much(tmp_path: Path, coopsim: Any) -> None:
    """It begins with segments that are not full, as the card's did; and empties the cache where the program did."""
    h = History()
    first = [h.take(mib) for mib in (14, 16, 18, 40)]
    for address in first[:3]:
        h.give(address)
    before = len(h.events)
    for mib in (14, 16, 18):
        h.take(mib)
    del h.events[:before]
    path = h.write(tmp_path / "s.pickle")
    out = tmp_path / "t.parquet"
    assert coopsim("import", "torch-snapshot", path, "-o", out).code == 0
    rows = json.loads(coopsim("requests", out, "--json").out)["allocators"]
    assert rows[0]["peak_reserved_bytes"] == (14 + 16 + 18 + 40) * MIB


def test_an_imported_history_empties_the_cache(tmp_path: Path, coopsim: Any) -> None:
    h = History()
    address = h.take(200)
    h.give(address)
    h.empty()
    h.take(100)
    path = h.write(tmp_path / "s.pickle")
    out = tmp_path / "t.parquet"
    assert coopsim("import", "torch-snapshot", path, "-o", out).code == 0
    rows = json.loads(coopsim("requests", out, "--json").out)["allocators"]
    assert rows[0]["peak_reserved_bytes"] == 200 * MIB
