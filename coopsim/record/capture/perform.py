"""Replay the requests of a trace with PyTorch's own caching allocator, from the trace's layout at the start.

To be used in a process on the phantom GPU (or a real one) that has allocated nothing yet. Nothing is computed.
"""

from dataclasses import dataclass

import torch

from coopsim.base.errors import CaptureError
from coopsim.trace import Trace
from coopsim.trace.request_rows import ALLOCATE, AMOUNT, KIND, NUMBER
from coopsim.trace.requests_of import of_trace


@dataclass(frozen=True)
class MeasuredPeaks:
    """The allocator's peaks in bytes: of segments, and of blocks in use."""

    reserved_bytes: int
    allocated_bytes: int


def perform(trace: Trace) -> MeasuredPeaks:
    """Make the requests of the recorded steps once, and return the allocator's peaks.

    Raises CaptureError if the trace has no layout at the start (it was imported, or recorded with allocator settings
    that a layout cannot describe), or if the allocator does not reproduce it (another version of torch, other
    settings).
    """
    if "memory_at_start" not in trace.header:
        raise CaptureError(f"the trace of {trace.label} does not say how memory was laid out at its start")
    requests = of_trace(trace)
    rows = requests.rows.tolist()
    address: dict[int, int] = {}
    _serve(rows[: requests.prologue], address)
    if torch.cuda.memory_reserved() != sum(total for total, _ in trace.header["memory_at_start"]):
        raise CaptureError(f"torch {torch.__version__} does not lay memory out as the trace has it")
    torch.cuda.reset_peak_memory_stats()
    _serve(rows[requests.prologue :], address)
    return MeasuredPeaks(torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated())


def _serve(rows: list[list[int]], address: dict[int, int]) -> None:
    for row in rows:
        if row[KIND] == ALLOCATE:
            address[row[NUMBER]] = int(torch.cuda.caching_allocator_alloc(row[AMOUNT]))
        else:
            torch.cuda.caching_allocator_delete(address.pop(row[NUMBER]))  # type: ignore[no-untyped-call]
