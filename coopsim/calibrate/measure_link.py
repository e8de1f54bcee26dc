"""Copies between the card and its host: pinned memory each way, both at once, and memory that is not pinned.

And what a copy takes the host, as live's planned steps make it.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from coopsim.live.copies import Copies, HostArea
from coopsim.live.streams import Streams

_BYTES = 256 << 20
_TIMES = 5
_SMALL, _CYCLES, _REPEATS = 512, 50, 9  # bytes; of 50 copies there and back a card's launch queue has room for all


def cases() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield one measurement, of all."""
    yield "link", _link


def _link() -> dict[str, Any]:
    here = [torch.empty(_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    there = [torch.empty(_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]  # type: ignore[no-untyped-call]
    loose = torch.zeros(_BYTES, dtype=torch.uint8)

    def both() -> None:
        for stream, to, of in zip(streams, (there[0], here[1]), (here[0], there[1]), strict=True):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                to.copy_(of, non_blocking=True)
        for stream in streams:
            torch.cuda.current_stream().wait_stream(stream)

    small, small_there = here[0][:4], there[0][:4]
    return {
        "to_card_gb_s": _rate(lambda: there[0].copy_(here[0], non_blocking=True)),
        "to_host_gb_s": _rate(lambda: here[0].copy_(there[0], non_blocking=True)),
        "duplex_gb_s": 2 * _rate(both),
        "pageable_to_card_gb_s": _rate(lambda: there[0].copy_(loose)),
        "pageable_to_host_gb_s": _rate(lambda: loose.copy_(there[0])),
        "latency_ns": round(1e9 * _seconds(lambda: small_there.copy_(small, non_blocking=True))),
        "host_ns": _host_ns(),
    }


def _host_ns() -> int:
    """What the host takes per copy, to begin it and to let ops wait for it: the median of several times."""
    area = HostArea("cuda")
    if why := area.reserve(_SMALL * _CYCLES):
        raise RuntimeError(why)
    copies, found = Copies(area, Streams()), []
    storage = torch.zeros(_SMALL, dtype=torch.uint8, device="cuda").untyped_storage()
    for _ in range(_REPEATS + 1):  # the first is not counted
        torch.cuda.synchronize()
        begun = time.perf_counter_ns()
        for key in ((i, 0) for i in range(_CYCLES)):
            copies.offload(key, storage, _SMALL * key[0])
            copies.finish_offload(key)
            copies.fetch(key, lambda n: torch.empty(n, dtype=torch.uint8, device="cuda").untyped_storage())
            copies.arrive(key)
        found.append((time.perf_counter_ns() - begun) / (2 * _CYCLES))
        copies.end()
    return round(statistics.median(found[1:]))


def _rate(call: Callable[[], Any]) -> float:
    return round(_BYTES / _seconds(call) / 1e9, 3)


def _seconds(call: Callable[[], Any]) -> float:
    """The median of a call's time on the card, the host's work for memory that is not pinned included."""
    found: list[float] = []
    for _ in range(_TIMES + 1):  # the first is not counted
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end) / 1e3)
    return max(statistics.median(found[1:]), 1e-9)
