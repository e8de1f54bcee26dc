"""Why memory ran out, and which settings of PyTorch's allocator would have kept it from doing so."""

from coopsim.advise.api import Advice, advise

__all__ = ["Advice", "advise"]
