"""Perform a trace on PyTorch's own caching allocator: what it asks for, in its order, from the layout of its start.

For a process that runs on the phantom GPU (or a real one) and has allocated nothing yet. Nothing is computed.
"""

from dataclasses import dataclass
from typing import Any

import torch

from coopsim.capture.errors import CaptureError
from coopsim.capture.layout import UNUSED, Layout
from coopsim.trace import Trace

_MIB = 2**20
_SMALL_SEGMENT = 2 * _MIB  #: of blocks of at most 1 MiB; the other segments' blocks are larger than that


@dataclass(frozen=True)
class Peaks:
    """What the allocator had at most, in bytes: of segments, and of blocks in use."""

    reserved_bytes: int
    allocated_bytes: int


def perform(trace: Trace) -> Peaks:
    """Perform the recorded steps once.

    Raises CaptureError if the trace has no layout of its start (it was imported, or recorded with allocator settings
    that a layout cannot describe), or if the allocator does not take it (another version of torch, other settings).
    """
    if "memory_at_start" not in trace.header:
        raise CaptureError(f"the trace of {trace.label} does not say how memory was laid out at its start")
    address = _restore(trace.header["memory_at_start"])
    torch.cuda.reset_peak_memory_stats()
    frees: list[list[int]] = [[] for _ in range(trace.n_ops + 1)]
    for storage, op in zip(trace.freed.tolist(), trace.freed_after.tolist(), strict=True):
        frees[op + 1].append(storage)
    sizes, created, requested = trace.bytes.tolist(), trace.creates.rows(), trace.requests.rows()
    for op in range(-1, trace.n_ops):
        if op >= 0:
            _request(requested[op], created[op], sizes, address)
        for storage in frees[op + 1]:
            _give_back(address.pop(storage))
    return Peaks(torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated())


def _request(codes: list[int], created: list[int], sizes: list[int], address: dict[int, int]) -> None:
    temporaries: list[int] = []
    for code in codes or range(-1, -len(created) - 1, -1):
        if code > 0:
            temporaries.append(_take(code))
        elif code >= -len(created):
            storage = created[-1 - code]
            address[storage] = _take(sizes[storage])
        else:
            _give_back(temporaries[-1 - len(created) - code])


def _restore(layout: Layout) -> dict[int, int]:
    """Make the segments of a layout with their blocks; give the address of every storage.

    Segment by segment: one is made by asking for all of it, and then cut from its low end, unused blocks too, so that
    only one segment at a time has room. The unused blocks are given back when all is in place.
    """
    address: dict[int, int] = {}
    unused: list[int] = []
    for total, blocks in layout:
        _give_back(_take(total if total > _SMALL_SEGMENT else 1))
        reserved = torch.cuda.memory_reserved()
        for size, storage in blocks:
            if storage != UNUSED:
                address[storage] = _take(size)
                continue
            most = _MIB if total == _SMALL_SEGMENT else size  # larger ones would not come from a small segment
            unused += [_take(min(most, size - start)) for start in range(0, size, most)]
        if torch.cuda.memory_reserved() != reserved:
            raise CaptureError(f"torch {torch.__version__} does not lay memory out as the trace has it")
    for block in unused:
        _give_back(block)
    return address


def _take(nbytes: int) -> int:
    return int(torch.cuda.caching_allocator_alloc(nbytes))


def _give_back(block: Any) -> None:
    torch.cuda.caching_allocator_delete(block)  # type: ignore[no-untyped-call]
