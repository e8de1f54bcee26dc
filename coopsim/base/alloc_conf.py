"""The environment variables that PyTorch's caching allocator takes its settings from."""

import os

VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"  #: which every version reads
EVERY = ("PYTORCH_ALLOC_CONF", VARIABLE, "PYTORCH_HIP_ALLOC_CONF")  #: the first of these that is set counts
EXPANDABLE = "expandable_segments:True"  #: free memory is joined by remapping pages, so that fragments add up
PAGE = 20 << 20  #: bytes of such a page


def here() -> str:
    """The settings in the environment of this process; "" if there are none."""
    return next((os.environ[name] for name in EVERY if os.environ.get(name)), "")


def of_live() -> tuple[tuple[str, str], ...]:
    """The variables to set for steps in a budget, as (name, value); () if the environment has some."""
    return () if any(name in os.environ for name in EVERY) else ((VARIABLE, EXPANDABLE),)
