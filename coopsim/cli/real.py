"""The real allocator that `--against` names."""

from typing import Any

from coopsim.progress import note
from coopsim.types import NEWEST_TORCH, CoopsimError


def real_allocator(against: str) -> Any:
    """Return the real allocator that --against names. Raises CoopsimError for a name of no such form."""
    from coopsim.allocators.caching.version import find
    from coopsim.oracle import gpu, oracle, recording

    if against == "cuda":
        return gpu()
    if against.endswith((".json", ".json.gz")):
        return recording.load(against)
    name, _, version = against.partition("==")
    if name != "torch" or not version:
        raise CoopsimError(
            f"--against {against}: write torch==VERSION, such as torch=={NEWEST_TORCH}, or cuda, or a file of --answers"
        )
    find(version)  # raises for a version that is not simulated
    note(f"preparing the allocator of torch {version}")
    return oracle(version, fetch=True)
