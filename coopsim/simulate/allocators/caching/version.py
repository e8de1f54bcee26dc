"""What differs between versions of PyTorch, as found by asking each version's own library."""

import re
from bisect import bisect_right
from dataclasses import dataclass

from coopsim.base.types import NEWEST_TORCH, OLDEST_TORCH, SIMULATED_TORCH, CoopsimError
from coopsim.simulate.allocators.caching import state as c

NEWEST = NEWEST_TORCH


@dataclass(frozen=True)
class Version:
    """The rules of one version of PyTorch."""

    name: str
    ties: int  #: what orders free blocks of one stream and size: their address, or when they or their segment were made
    shared_settings: bool  #: the settings are parsed by the code that all accelerators share
    whole_is_no_limit: bool  #: a memory fraction of 1 takes the limit away; before, it is a limit of all memory
    wastes_space: bool  #: address space too small for its first request is left unused, not kept
    keys: frozenset[str]  #: settings that it knows
    latest_pool_first: bool = True  #: of several private pools that are begun, the latest serves a request
    pools_hold_events: bool = False  #: no event is queried while a pool is begun, even if nothing is captured
    empties_in_pools: bool = True  #: memory can be given back while a pool is begun


_KEYS = frozenset(
    {
        "backend",
        "expandable_segments",
        "garbage_collection_threshold",
        "max_non_split_rounding_mb",
        "max_split_size_mb",
        "pinned_num_register_threads",
        "pinned_use_background_threads",
        "pinned_use_cuda_host_register",
        "pinned_use_hip_host_register",
        "release_lock_on_cudamalloc",
        "release_lock_on_hipmalloc",
        "roundup_power2_divisions",
    }
)
_KEYS_2_9 = _KEYS | {"graph_capture_record_stream_reuse"}
_KEYS_2_10 = _KEYS_2_9 | {"per_process_memory_fraction", "pinned_reserve_segment_size_mb"}
_KEYS_2_11 = _KEYS_2_10 | {"large_segment_size_mb"}
_KEYS_2_12 = _KEYS_2_11 | {"pinned_free_catch_all", "throw_on_cudamalloc_oom"}
_KEYS_2_13 = _KEYS_2_12 | {"pinned_max_cached_size_mb", "pinned_max_round_threshold_mb"}
_KEYS_2_15 = _KEYS_2_13 | {"expandable_segments_reserve", "expandable_segments_reserve_by_class"}

#: The rules by version: of each minor version those of its last release, which its own library was asked for.
VERSIONS = {
    v.name: v
    for v in (
        Version(OLDEST_TORCH, c.BY_ADDRESS, False, False, False, _KEYS, False, True, False),
        Version("2.7.1", c.BY_ADDRESS, False, False, False, _KEYS, False, True, False),
        Version("2.8.0", c.BY_ADDRESS, False, False, False, _KEYS, False, True),
        Version("2.9.1", c.BY_ADDRESS, False, False, False, _KEYS_2_9, False, True),
        Version("2.10.0", c.BY_ADDRESS, True, True, False, _KEYS_2_10, True, True),
        Version("2.11.0", c.BY_ADDRESS, True, True, False, _KEYS_2_11, True, True),
        Version("2.12.1", c.BY_BLOCK, True, True, False, _KEYS_2_12, True, True),
        Version("2.13.0", c.BY_SEGMENT, True, True, False, _KEYS_2_13),
        Version("2.14.1", c.BY_SEGMENT, True, True, False, _KEYS_2_13),
        Version(NEWEST, c.BY_SEGMENT, True, True, True, _KEYS_2_15),
    )
}


def _number(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("."))


def between(earliest: str | None, latest: str | None) -> list[str]:
    """The known versions from `earliest` to `latest`, minor versions; None: without end; the nearest one if none is.

    >>> between("2.5", "2.7"), between("2.10", "2.11"), between(None, "2.1"), between("2.13", "2.13")
    (['2.6.0', '2.7.1'], ['2.10.0', '2.11.0'], ['2.6.0'], ['2.13.0'])
    """
    names = list(VERSIONS)
    minors = [_number(name)[:2] for name in names]
    first, last = (0 if v is None else max(bisect_right(minors, _number(v)) - 1, 0) for v in (earliest, latest))
    return names[first : (len(names) if latest is None else last + 1)]


def find(name: str) -> Version:
    """The rules of that version: those of the last release of its minor version. CoopsimError if it is not simulated.

    >>> find("2.13").name, find("2.7.0").name, find("2.9.1+cu128").name
    ('2.13.0', '2.7.1', '2.9.1')
    """
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?(\+[\w.]+)?", name):
        raise CoopsimError(f"torch {name!r} is not a version; known are {', '.join(VERSIONS)}")
    parts = _number(name.partition("+")[0])
    if not _number(OLDEST_TORCH)[:2] <= parts[:2] <= _number(NEWEST_TORCH)[:2]:
        raise CoopsimError(f"torch {name} is not simulated, only {SIMULATED_TORCH}; known are {', '.join(VERSIONS)}")
    return next(v for v in VERSIONS.values() if _number(v.name)[:2] == parts[:2])
