"""What PyTorch's allocator is told before a script runs inside a budget."""

import os

#: What is free is put together, wherever it is, before the budget is found too small for it.
_SETTING = ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
_SET_BY = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def variables() -> tuple[tuple[str, str], ...]:
    """Of the environment; none if it says something itself."""
    return () if any(name in os.environ for name in _SET_BY) else (_SETTING,)
