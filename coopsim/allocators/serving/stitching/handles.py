"""What a request got: pBlocks, or a block of the pool of small requests."""

from coopsim.allocators.serving.plain import Block, Held, Segments
from coopsim.allocators.serving.stitching.chunks import CHUNK, PBlock

Handle = list[PBlock] | Held


def key(handle: Handle) -> Block | PBlock:
    """What stands for it: its only block, or the first."""
    return handle.block if isinstance(handle, Held) else handle[0]


def stream_of(handle: Handle, small: dict[int, Segments]) -> int:
    """The stream that it was taken on. `small`: the pool of each stream."""
    if isinstance(handle, Held):
        return next(stream for stream, pool in small.items() if pool is handle.pool)
    return handle[0].stream


def bytes_of(handle: Handle) -> int:
    """What is allocated for it."""
    if isinstance(handle, Held):
        return handle.block.bytes
    return sum(len(block.chunks) for block in handle) * CHUNK
