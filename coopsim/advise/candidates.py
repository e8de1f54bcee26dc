"""The allocator settings to try: those that users are commonly advised to try."""

from coopsim.allocators.caching.conf import parse
from coopsim.allocators.caching.version import find
from coopsim.types import CoopsimError

_SPLITS = (32, 64, 128, 256, 512, 1024, 2048)
#: The setting that users ask about most.
EXPANDABLE = "expandable_segments:True"
#: Simple ones first: of equally good settings, the first is recommended.
CANDIDATES = (
    EXPANDABLE,
    *(f"garbage_collection_threshold:{x}" for x in (0.9, 0.8, 0.6)),
    *(f"max_split_size_mb:{mb}" for mb in _SPLITS),
    *(f"roundup_power2_divisions:{n}" for n in (1, 2, 4, 8, 16)),
    *(f"large_segment_size_mb:{mb}" for mb in (64, 128, 256, 512)),
    *(f"max_split_size_mb:{mb},garbage_collection_threshold:0.8" for mb in _SPLITS),
    *(f"max_split_size_mb:{mb},roundup_power2_divisions:8" for mb in (128, 256, 512)),
    "max_split_size_mb:256,max_non_split_rounding_mb:128",
    "max_split_size_mb:512,max_non_split_rounding_mb:512",
    "expandable_segments:True,roundup_power2_divisions:8",
    "expandable_segments:True,garbage_collection_threshold:0.8",
)


def candidates(torch: str) -> list[str]:
    """Return the candidates that a version of PyTorch supports."""
    rules = find(torch)
    taken = []
    for conf in CANDIDATES:
        try:
            parse(conf, rules)
        except CoopsimError:
            continue
        taken.append(conf)
    return taken
