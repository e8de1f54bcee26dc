"""Find what a release has compiled for one build of torch, so that it needs no compiler there.

`.ci/compile.py` makes these folders, and `hatch_build.py` puts them into a wheel for Linux; a checkout has none.
"""

from pathlib import Path


def folder(torch: str, cuda: str) -> Path:
    """Return the folder of libraries for a torch and its CUDA version; it need not exist."""
    return Path(__file__).parents[1] / "compiled" / f"torch-{torch.partition('+')[0]}-cuda-{cuda}"
