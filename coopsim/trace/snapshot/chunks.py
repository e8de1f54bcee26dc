"""Chunks: a card's driver carves the segments of cudaMalloc out of them (docs/allocators.md). They tell ages."""

from collections.abc import Callable, Iterable
from typing import TypeVar

CHUNK = 32 << 20  #: bytes; chunks begin at multiples, and are as long as a number of them

T = TypeVar("T")


def oldest_first(segments: Iterable[T], span: Callable[[T], tuple[int, int]]) -> list[T]:
    """Return the segments by age, as far as addresses tell. span: the address of one, and its bytes.

    Later chunks lie lower, and are filled from their low ends. Where memory was returned, and its addresses used again,
    nothing tells.
    """
    chunks: list[list[T]] = []
    end = -1
    for segment in sorted(segments, key=span):
        address, nbytes = span(segment)
        if address >= end:
            chunks.append([])
            end = -(-(address + nbytes) // CHUNK) * CHUNK
        chunks[-1].append(segment)
    return [segment for chunk in reversed(chunks) for segment in chunk]
