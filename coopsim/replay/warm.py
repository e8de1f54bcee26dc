"""Compile the core before it is needed."""

from coopsim.allocators import Allocator
from coopsim.options import ReplayOptions
from coopsim.replay.api import measure
from coopsim.trace.build import TraceBuilder


def warm_up(allocator: Allocator | str = "arena") -> None:
    """Compile in this process, so that others find the machine code."""
    b = TraceBuilder()
    x, y = b.storage(512, "input", alive_at_start=True), b.storage(512)
    b.op("aten.relu.default", reads=[x], creates=[y], cost_ns=1)
    b.free(y)
    measure(b.build({}), "coop", 32 << 20, allocator, ReplayOptions(steps=1))
