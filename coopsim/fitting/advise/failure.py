"""Analyse the state of memory at one request: what is where, and why the request fails."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coopsim.fitting.advise.growth import LoopGrowth, growth
from coopsim.simulate.allocators.caching.api import CachingAllocator, CachingSegment
from coopsim.simulate.allocators.caching.device import CUDA
from coopsim.trace.request_rows import ALLOCATE, AMOUNT, BEGIN, CAPTURE, END, KIND, NUMBER, STREAM
from coopsim.trace.requests import Requests
from coopsim.trace.snapshot.model import Snapshot

_SMALL = 1 << 20  #: bytes; larger requests never come from a segment of small blocks


@dataclass(frozen=True)
class Pinned:
    """A segment that cannot be released, because it is partly in use; `holders` are the labels of most live bytes."""

    address: int
    nbytes: int
    free_bytes: int
    live_bytes: int
    holders: tuple[str, ...]


@dataclass(frozen=True)
class OfStream:
    """The segments that serve one stream: their bytes, those that are free, and those pending (freed, but perhaps still
    used by another stream).
    """

    stream: int
    reserved_bytes: int
    free_bytes: int
    pending_bytes: int


@dataclass(frozen=True)
class Failure:
    """The state of memory when a request (`row`) failed, or, if none did, at the peak of reserved memory.

    Bytes, all at the same moment; reserved_bytes is the sum of the six from live to other_pool. live: as requested.
    rounding: what blocks have beyond that. pending: freed, but another stream may still use it. free: in segments that
    this request could use (all, if it was served); other_streams: free in those of other streams; other_pool: free in
    small blocks where the request is large, or the other way round, and in other private pools. pool: the request's
    private pool, 0 if none. unused_device: of the device, in no segment. floor: the most that all requests hold at
    once, whatever the allocator. labels: what holds each block, by segment; "" if it is free. pinned: segments that are
    partly in use. growth: what earlier iterations of a loop keep; None if it is little or not known.
    """

    row: int
    failed: bool
    label: str
    requested_bytes: int
    stream: int
    live_bytes: int
    rounding_bytes: int
    pending_bytes: int
    free_bytes: int
    other_streams_bytes: int
    other_pool_bytes: int
    largest_free_block_bytes: int
    unused_device_bytes: int
    floor_bytes: int
    segments: tuple[CachingSegment, ...]
    labels: tuple[tuple[str, ...], ...]
    pinned: tuple[Pinned, ...]
    pool: int = 0
    growth: LoopGrowth | None = None

    @property
    def reserved_bytes(self) -> int:
        """The bytes of all segments."""
        return sum(s.bytes for s in self.segments)

    @property
    def streams(self) -> list[OfStream]:
        """The segments by stream, the stream with most reserved bytes first."""
        found: dict[int, Counter[str]] = {}
        for segment in self.segments:
            of = found.setdefault(segment.stream, Counter())
            of["reserved"] += segment.bytes
            for block in segment.blocks:
                of[block.state] += block.bytes
        rows = [OfStream(stream, of["reserved"], of["f"], of["P"]) for stream, of in found.items()]
        return sorted(rows, key=lambda of: (-of.reserved_bytes, of.stream))

    def kind_of_free(self, segment: CachingSegment) -> str:
        """Return how a segment's free memory counts for the request: "free", "other_streams" or "other_pool"."""
        return _kind_of_free(segment, self.stream, self.requested_bytes, self.pool, failed=self.failed)

    @property
    def cause(self) -> str:
        """The main cause: growth, size, fragmentation, other-streams, pending, rounding or other-pool; "" without one.

        It is growth if the request would fit without what a loop keeps, size if nothing else could make it fit, and
        otherwise what takes most bytes.
        """
        if not self.failed:
            return ""
        if self.growth and self.growth.nbytes >= self.requested_bytes:
            return "growth"
        if self.floor_bytes > self.reserved_bytes + self.unused_device_bytes:
            return "size"
        parts = {
            "fragmentation": self.free_bytes,
            "other-streams": self.other_streams_bytes,
            "pending": self.pending_bytes,
            "rounding": self.rounding_bytes,
            "other-pool": self.other_pool_bytes,
        }
        return max(parts, key=lambda name: parts[name])


def at_request(
    requests: Requests,
    row: int,
    *,
    torch: str,
    conf: str,
    total_bytes: int,
    failed: bool,
    snapshot: Snapshot | None = None,
) -> Failure:
    """Return the state of memory after the requests up to `row`, which must allocate, by a simulated allocator.

    `torch`, `conf`, `total_bytes`: its version, settings and memory. `failed`: whether the request failed. `snapshot`:
    the one that the requests are from, to find growth.
    """
    allocator = CachingAllocator(torch, conf, total_bytes, driver=CUDA)
    addresses, _ = allocator.run(requests.rows[: row + 1])
    held = _held(requests, row, addresses)
    number, requested, on = (int(requests.rows[row, column]) for column in (NUMBER, AMOUNT, STREAM))
    pool = _pool_at(requests, row)
    segments = allocator.segments()
    parts: Counter[str] = Counter()
    largest = 0
    pinned: list[Pinned] = []
    labels: list[tuple[str, ...]] = []
    for segment in segments:
        at, free, live, holders, names = segment.address, 0, 0, Counter[str](), list[str]()
        for block in segment.blocks:
            name = held.get((segment.is_expandable, at), "") if block.state == "A" else ""
            names.append(name)
            at += block.bytes
            if block.state == "f":
                free += block.bytes
                where = _kind_of_free(segment, on, requested, pool, failed=failed)
                parts[where] += block.bytes
                largest = max(largest, block.bytes if where == "free" else 0)
                continue
            live += block.bytes
            if block.state == "A":
                parts["live"] += block.requested
                parts["rounding"] += block.bytes - block.requested
                holders[name] += block.bytes
            else:
                parts["pending"] += block.bytes
                holders["waits for another stream"] += block.bytes
        labels.append(tuple(names))
        if free and live:
            most = tuple(label for label, _ in holders.most_common(3))
            pinned.append(Pinned(segment.address, segment.bytes, free, live, most))
    return Failure(
        row=row,
        failed=failed,
        label=requests.labels[number],
        requested_bytes=requested,
        stream=on,
        **{f"{name}_bytes": parts[name] for name in ("live", "rounding", "pending", "free")},
        other_streams_bytes=parts["other_streams"],
        other_pool_bytes=parts["other_pool"],
        largest_free_block_bytes=largest,
        floor_bytes=requests.peak_bytes(),
        unused_device_bytes=max(total_bytes - sum(s.bytes for s in segments), 0),
        segments=tuple(segments),
        labels=tuple(labels),
        pinned=tuple(sorted(pinned, key=lambda p: (-p.free_bytes, p.address))),
        pool=pool,
        growth=growth(snapshot, requests, row) if snapshot else None,
    )


def _pool_at(requests: Requests, row: int) -> int:
    """Return the private pool that is active at a row; 0 if none is."""
    kinds = requests.rows[: row + 1, KIND]
    changes = np.flatnonzero((kinds == BEGIN) | (kinds == CAPTURE) | (kinds == END))
    last = int(changes[-1]) if len(changes) else -1
    return int(requests.rows[last, NUMBER]) if last >= 0 and kinds[last] != END else 0


def _kind_of_free(segment: CachingSegment, stream: int, requested: int, pool: int, *, failed: bool) -> str:
    if not failed:
        return "free"
    if segment.pool != pool:
        return "other_pool"
    if segment.stream != stream:
        return "other_streams"
    return "free" if segment.is_large == (requested > _SMALL) else "other_pool"


def peak_row(requests: Requests, *, torch: str, conf: str, total_bytes: int) -> int:
    """Return the row of the first allocation after which reserved memory is at its peak."""
    reserved = np.zeros(len(requests), np.int64)
    CachingAllocator(torch, conf, total_bytes, driver=CUDA).run(requests.rows, reserved)
    return int(np.argmax(np.where(requests.rows[:, KIND] == ALLOCATE, reserved, -1)))


def _held(requests: Requests, row: int, addresses: NDArray[np.int64]) -> dict[tuple[bool, int], str]:
    """Return the labels of what is held after a row, by (whether in an expandable segment, address).

    Addresses of both kinds of segment may coincide, so each label is entered for both.
    """
    _, start, _ = requests.lifetimes()
    held = [(number, int(addresses[start[number]])) for number in requests.held(row).tolist()]
    return {(space, a): requests.labels[n] for n, a in held if a >= 0 for space in (False, True)}
