"""Reconstruct a snapshot's segments as they were before the first event of its history."""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from coopsim.base.types import GRANULE
from coopsim.trace.snapshot.chunks import oldest_first
from coopsim.trace.snapshot.model import Pool, Snapshot, SnapshotBlock, SnapshotSegment
from coopsim.trace.snapshot.unpickle import SnapshotError

_UNSPLIT = 1 << 20  #: bytes up to which the allocator leaves a remainder with its block, in large segments


@dataclass
class _Range:
    """Contiguous memory of the device: a segment, or part of an expandable one."""

    start: int
    end: int
    stream: int
    large: bool
    expandable: bool
    pool: Pool


def rewind(snapshot: Snapshot) -> list[SnapshotSegment]:
    """Return the segments before the first event, oldest first (chunks.py); expandable ones lead, by address.

    A block that was freed later gets the requested size, rounded, plus an unsplit remainder if the history implies one:
    up to the next block, if that is near, or up to one that is allocated near behind it later. Raises SnapshotError if
    the history does not lead to the snapshot's segments.
    """
    ranges = [
        _Range(s.address, s.address + s.nbytes, s.stream, s.large, s.expandable, s.pool) for s in snapshot.segments
    ]
    blocks = {b.address: b for s in snapshot.segments for b in s.blocks if b.state != "free"}
    for at in range(len(snapshot.events) - 1, -1, -1):
        event = snapshot.events[at]
        address, end = event.address, event.address + event.nbytes
        try:
            if event.action == "alloc":
                del blocks[address]
            elif event.action == "free_completed":
                _absent(blocks, address)
                blocks[address] = SnapshotBlock(address, 0, event.nbytes, "pending")
            elif event.action == "free_requested":
                old = blocks[address]
                blocks[address] = SnapshotBlock(address, old.nbytes, old.requested_bytes, "allocated", old.frames)
            elif event.action in ("segment_alloc", "segment_map"):
                _cut(ranges, address, end)
            elif event.action in ("segment_free", "segment_unmap"):
                expandable = event.action == "segment_unmap"
                ranges.append(_Range(address, end, event.stream, event.nbytes > 2 << 20, expandable, event.pool))
        except KeyError:
            raise SnapshotError(
                f"{snapshot.path}: its history does not lead to its segments (event {at}, {event.action} at "
                f"{address:#x}); was it recorded without some kinds of events?"
            ) from None
    followers = _followers(snapshot, blocks)
    joined = list(_joined(ranges))
    plain = oldest_first([r for r in joined if not r.expandable], lambda r: (r.start, r.end - r.start))
    ordered = [r for r in joined if r.expandable] + plain
    return [_segment(r, blocks, followers, snapshot.path) for r in ordered]


def _followers(snapshot: Snapshot, held: dict[int, SnapshotBlock]) -> dict[int, int]:
    """Return where the next block begins, as seen while a block was held, by the address of a block of the start.

    The allocator uses the low end of a free block, so that what is allocated behind a block begins where that ends.
    """
    starts = sorted(held)
    gone: set[int] = set()
    found: dict[int, int] = {}
    for event in snapshot.events:
        if event.action == "free_completed":
            gone.add(event.address)
        elif event.action == "alloc":
            before = bisect.bisect_left(starts, event.address) - 1
            if before >= 0 and starts[before] not in gone:
                found[starts[before]] = min(event.address, found.get(starts[before], event.address))
    return found


def _absent(blocks: dict[int, SnapshotBlock], address: int) -> None:
    if address in blocks:
        raise KeyError(address)


def _cut(ranges: list[_Range], start: int, end: int) -> None:
    """Remove the addresses from start to end from the ranges. Raises KeyError if they are not all in them."""
    touched = [r for r in ranges if r.start < end and start < r.end]
    if sum(min(r.end, end) - max(r.start, start) for r in touched) != end - start:
        raise KeyError(start)
    for r in touched:
        ranges.remove(r)
        rest = replace(r, end=start), replace(r, start=end)
        ranges += [part for part in rest if part.start < part.end]


def _joined(ranges: Iterable[_Range]) -> Iterable[_Range]:
    """Yield the ranges by address, adjacent ones of expandable segments joined, as in a snapshot."""
    last: _Range | None = None
    for r in sorted(ranges, key=lambda r: r.start):
        joins = last is not None and last.expandable and r.expandable
        if last is not None and joins and (last.end, last.stream, last.pool) == (r.start, r.stream, r.pool):
            last.end = r.end
            continue
        if last is not None:
            yield last
        last = r
    if last is not None:
        yield last


def _segment(r: _Range, held: dict[int, SnapshotBlock], followers: dict[int, int], path: str) -> SnapshotSegment:
    inside: Sequence[SnapshotBlock] = sorted(
        (b for a, b in held.items() if r.start <= a < r.end), key=lambda b: b.address
    )
    blocks: list[SnapshotBlock] = []
    at = r.start
    for i, block in enumerate(inside):
        if block.address < at:
            raise SnapshotError(f"{path}: blocks overlap at {block.address:#x}")
        if block.address > at:
            blocks.append(SnapshotBlock(at, block.address - at, 0, "free"))
        limit = inside[i + 1].address if i + 1 < len(inside) else r.end
        size = block.nbytes or -(-max(block.requested_bytes, 1) // GRANULE) * GRANULE
        if not block.nbytes and r.large and not r.expandable:
            end = min(followers.get(block.address, limit), limit)
            if 0 <= end - block.address - size <= _UNSPLIT:
                size = end - block.address
        if block.address + size > limit:
            raise SnapshotError(f"{path}: blocks overlap at {block.address + size:#x}")
        blocks.append(SnapshotBlock(block.address, size, block.requested_bytes, block.state, block.frames))
        at = block.address + size
    if at < r.end:
        blocks.append(SnapshotBlock(at, r.end - at, 0, "free"))
    return SnapshotSegment(r.start, r.end - r.start, r.stream, r.large, r.expandable, tuple(blocks), r.pool)
