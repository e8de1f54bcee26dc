"""The simulated caching allocator beside the GPU's: where each request was put, the peaks, the least memory."""

import json
from pathlib import Path
from typing import Any

from coopsim import snapshot
from coopsim.allocators.caching.api import ENDLESS, CachingAllocator
from coopsim.allocators.caching.trial import attempt, smallest
from coopsim.kernel.rows import ALLOCATE, KIND
from coopsim.requests import of_snapshot, of_trace
from coopsim.snapshot.rewind import rewind
from coopsim.trace import Trace
from experiments.gpu import names

Place = tuple[int, int]  #: number of the segment, in the order in which they were made; bytes from its start


def real_places(found: snapshot.Snapshot) -> list[Place]:
    """Of each allocation in the history."""
    segments = [(s.address, s.nbytes) for s in rewind(found)]
    places = []
    for event in found.events:
        if event.action == "segment_alloc":
            segments.append((event.address, event.nbytes))
        elif event.action == "alloc":
            places.append(_place(event.address, segments))
    return places


def simulated_places(found: snapshot.Snapshot, torch: str) -> list[Place]:
    """The same, simulated; while the device has room, no segment goes, and their addresses are in the order of age."""
    requests = of_snapshot(found)
    allocator = CachingAllocator(torch, found.conf, ENDLESS)
    answers, _ = allocator.run(requests.rows)
    segments = [(s.address, s.bytes) for s in allocator.segments()]
    takes = (requests.rows[:, KIND] == ALLOCATE) & (requests.source >= 0)
    return [_place(address, segments) for address in answers[takes].tolist()]


def compare(model: str, folder: Path) -> dict[str, Any]:
    """Everything of one model. Sizes in bytes."""
    measured = json.loads((folder / names.smallest(model)).read_text())
    torch = measured["machine"]["versions"]["torch"].partition("+")[0]
    found = snapshot.read(folder / names.snapshot(model))
    real, simulated = real_places(found), simulated_places(found, torch)
    requests = of_snapshot(found)
    free = attempt(requests, torch, found.conf)
    first = measured["tries"][0]
    differing = next((i for i, (a, b) in enumerate(zip(real, simulated, strict=True)) if a != b), None)
    return {
        "model": model,
        "torch": torch,
        "allocations": len(real),
        "same_place": sum(a == b for a, b in zip(real, simulated, strict=True)),
        "first_difference": differing,
        "peak_reserved_bytes": [first["peak_reserved_bytes"], free.peak_reserved_bytes],
        "peak_allocated_bytes": [first["peak_allocated_bytes"], free.peak_allocated_bytes],
        "smallest_bytes": [measured["smallest_bytes"], smallest(requests, torch, found.conf)],
        "confirmed": [t["fits"] for t in measured["confirmed"]],
        "left_bytes": max(t["left_bytes"] for t in measured["tries"]),
    }


def step_peak(trace: Trace) -> list[int]:
    """Peak reserved of the recorded steps: by the GPU's allocator, and simulated from the trace's requests."""
    torch = trace.header["versions"]["torch"].partition("+")[0]
    return [trace.header["peak_reserved_bytes"], attempt(of_trace(trace), torch, "").peak_reserved_bytes]


def _place(address: int, segments: list[tuple[int, int]]) -> Place:
    for number, (start, nbytes) in enumerate(segments):
        if start <= address < start + nbytes:
            return number, address - start
    return -1, address
