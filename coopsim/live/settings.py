"""The settings of PyTorch's allocator for scripts that run inside a budget."""

import os

#: Free memory is joined by remapping pages, so that fragments add up.
_SETTING = ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
_SET_BY = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def variables() -> tuple[tuple[str, str], ...]:
    """The environment variables to set, as (name, value); () if the environment configures the allocator itself."""
    return () if any(name in os.environ for name in _SET_BY) else (_SETTING,)
