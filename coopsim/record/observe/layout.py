"""Describe the memory layout at the start of a recording: the allocator's segments, and what their blocks hold.

The same requests get the same addresses from the same allocator only if they start from the same layout. Only PyTorch's
plain segments on the default stream are described: no expandable segments, no private pools.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from coopsim.record.observe.storages import Storage
from coopsim.record.observe.torch_private import memory_snapshot
from coopsim.trace.snapshot.chunks import oldest_first

#: Contents of blocks without a storage: unused, or memory that a library holds (cuBLAS keeps its workspaces for good).
UNUSED, FOREIGN = -1, -2

#: Segments, oldest first: (bytes of the segment, its blocks by address: (bytes, number of the storage that it holds)).
Layout: TypeAlias = list[tuple[int, list[tuple[int, int]]]]


def snapshot() -> list[dict[str, Any]]:
    """Return the segments of torch.cuda.memory._snapshot, oldest first as far as addresses tell."""
    return oldest_first(memory_snapshot()["segments"], lambda segment: (segment["address"], segment["total_size"]))


def describe(
    segments: Iterable[Mapping[str, Any]], storages: Iterable[Storage], number: Mapping[Storage, int]
) -> Layout | None:
    """Return the layout of a snapshot's segments (`Layout`). A block's content is its storage's number in `number`.

    It is UNUSED for a free block, and FOREIGN for one that holds no storage of these. None if a segment is expandable,
    of a private pool, or of a stream that is not the default one.
    """
    held = {storage.address: number[storage] for storage in storages}
    layout: Layout = []
    for segment in segments:
        if segment["is_expandable"] or segment["stream"] or tuple(segment["segment_pool_id"]) != (0, 0):
            return None
        blocks = []
        for block in segment["blocks"]:
            used = block["state"] != "inactive"
            blocks.append((block["size"], held.get(block["address"], FOREIGN) if used else UNUSED))
        layout.append((segment["total_size"], blocks))
    return layout
