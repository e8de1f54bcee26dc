"""Copies between the card and its host: pinned memory each way, both at once, and memory that is not pinned."""

import statistics
from collections.abc import Callable, Iterator
from typing import Any

import torch

_BYTES = 256 << 20
_TIMES = 5


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
    }


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
