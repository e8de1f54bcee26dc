"""What a program asks of its allocator, in order: from a trace, a schedule, or PyTorch's own memory history."""

from coopsim.requests.of_schedule import of_schedule
from coopsim.requests.of_snapshot import of_snapshot
from coopsim.requests.of_trace import of_trace
from coopsim.requests.requests import Requests

__all__ = ["Requests", "of_schedule", "of_snapshot", "of_trace"]
