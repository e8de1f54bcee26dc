"""Real training steps inside a hard budget, bit for bit, by the schedules that coopsim plans."""

from coopsim.live.budget import Budget
from coopsim.live.errors import DoesNotFit, LiveError

__all__ = ["Budget", "DoesNotFit", "LiveError"]
