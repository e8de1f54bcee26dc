"""Histories that the real allocator wrote, given to the simulated one: every request must be served as recorded."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopsim.cards import wheel
from coopsim.fitting.advise.selfcheck import Agreement, check
from coopsim.trace.checks import check as check_trace
from coopsim.trace.request_rows import ALLOCATE, DELAY, EMPTY, FREE, KIND, RECORD, TICK
from coopsim.trace.requests import Requests
from coopsim.trace.requests_of import of_trace
from coopsim.trace.snapshot import Snapshot, read
from coopsim.trace.snapshot.requests import device_bytes, of_snapshot, to_trace
from tests.conftest import Runner

PROGRAM = """
import pickle, random, torch

random.seed({seed})
streams = [torch.cuda.current_stream(), *[torch.cuda.Stream() for _ in range({streams} - 1)]]
sizes = [100, 512, 5000, 300_000, 1 << 20, 1_500_000, 5 << 20, 9_000_000, 15 << 20, 60_000_000, 200 << 20]
held = []

def work(n):
    for _ in range(n):
        what = random.random()
        if what < 0.52 or not held:
            with torch.cuda.stream(random.choice(streams)):
                try:
                    size = random.choice(sizes) + random.randrange(3000)
                    held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
                except torch.OutOfMemoryError:
                    del held[len(held) // 2:]
        elif what < 0.97:
            tensor = held.pop(random.randrange(len(held)))
            if random.random() < 0.2:
                tensor.record_stream(random.choice(streams))
            del tensor
        elif {empties}:
            torch.cuda.empty_cache()

torch.cuda.init()
work({before})
torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=1_000_000)
work(1500)
with open({out!r}, "wb") as file:
    pickle.dump(torch.cuda.memory._snapshot(), file, protocol=4)
answer(True)
"""

PLENTY, SCARCE = 20 << 30, 3 << 30


def slow(*values: object) -> Any:
    """Less of what another has more of."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("conf", "streams", "before", "empties", "total"),
    [
        slow("", 1, 0, False, PLENTY),
        slow("", 1, 0, True, PLENTY),
        slow("", 3, 0, False, PLENTY),
        ("", 3, 0, True, PLENTY),
        slow("", 1, 0, False, SCARCE),
        ("", 3, 0, False, SCARCE),
        ("", 1, 800, False, PLENTY),
        ("roundup_power2_divisions:8", 1, 0, True, PLENTY),
        ("max_split_size_mb:64", 2, 0, False, PLENTY),
        ("garbage_collection_threshold:0.5", 1, 0, False, SCARCE),
        slow("expandable_segments:True", 1, 0, False, PLENTY),
        ("expandable_segments:True", 3, 0, True, PLENTY),
        ("expandable_segments:True", 2, 0, False, SCARCE),
    ],
)
def test_served_as_recorded(
    conf: str, streams: int, before: int, empties: bool, total: int, on_phantom: Runner, tmp_path: Path
) -> None:
    out = tmp_path / "s.pickle"
    text = PROGRAM.format(seed=7, streams=streams, before=before, empties=empties, out=str(out))
    variables = {"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {}
    assert on_phantom(text, total_bytes=total, **variables)
    snapshot = read(out)
    assert snapshot.conf == conf
    found, requests = _agreement(snapshot)
    assert found.whole, found.message
    assert found.requests > 500
    assert found.placed == found.requests
    kinds = set(requests.rows[:, KIND].tolist())
    assert kinds >= {ALLOCATE, FREE}
    assert (EMPTY in kinds) == empties
    if streams > 1:
        assert kinds >= {RECORD, TICK, DELAY}
    if total == SCARCE:
        assert any(e.action == "oom" for e in snapshot.events)
    assert (requests.prologue > 0) == (before > 0)


def _agreement(snapshot: Snapshot) -> tuple[Agreement, Requests]:
    total = device_bytes(snapshot)
    requests = of_snapshot(snapshot, total_bytes=total)
    return check(snapshot, requests, torch=wheel.find().version.partition("+")[0], total_bytes=total), requests


def test_trace_of_a_history(on_phantom: Runner, tmp_path: Path) -> None:
    out = tmp_path / "s.pickle"
    on_phantom(PROGRAM.format(seed=3, streams=1, before=300, empties=False, out=str(out)), total_bytes=PLENTY)
    snapshot = read(out)
    trace = to_trace(snapshot)
    check_trace(trace)
    assert trace.header["dependencies"] == "unknown"
    assert trace.n_ops == sum(e.action == "alloc" for e in snapshot.events)
    again, direct = of_trace(trace), of_snapshot(snapshot)
    kinds = direct.rows[direct.prologue :, KIND]
    taken = direct.rows[direct.prologue :][kinds == ALLOCATE]
    assert np.array_equal(
        again.rows[again.prologue :][again.rows[again.prologue :, KIND] == ALLOCATE][:, 2], taken[:, 2]
    )
