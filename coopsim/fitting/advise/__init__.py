"""Explain why memory ran out, and find settings of PyTorch's allocator that would have prevented it."""

from coopsim.fitting.advise.api import Advice, advise

__all__ = ["Advice", "advise"]
