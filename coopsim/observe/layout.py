"""How memory was laid out when the recording started: which segments there were, and what lay where in them.

A step's requests, given to the same allocator from the same layout, get the same addresses; from another they need not.
Only PyTorch's plain segments on the default stream are described: no expandable ones, no private pools.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from coopsim.observe.storages import Storage
from coopsim.observe.torch_private import memory_snapshot

#: What a block holds that holds no storage: nothing, or memory of a library's (cuBLAS keeps workspaces for good).
UNUSED, FOREIGN = -1, -2

#: Segments, oldest first: bytes of the segment and of its blocks in order, and the storage that each block holds.
Layout: TypeAlias = list[tuple[int, list[tuple[int, int]]]]


def snapshot() -> list[dict[str, Any]]:
    """The allocator's segments in order of address, which is that of their age where none was given back between."""
    found = memory_snapshot()["segments"]
    return sorted(found, key=lambda segment: int(segment["address"]))


def describe(
    segments: Iterable[Mapping[str, Any]], storages: Iterable[Storage], number: Mapping[Storage, int]
) -> Layout | None:
    """The layout of a snapshot, with storages by number; None if it is not one that this module can describe."""
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
