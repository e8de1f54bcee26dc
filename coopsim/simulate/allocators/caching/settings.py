"""Settings as the simulation needs them, and how they become registers of the state."""

from dataclasses import dataclass, field

from coopsim.base.types import MIB
from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.rounding import INTERVALS
from coopsim.simulate.allocators.caching.version import Version


@dataclass
class CachingSettings:
    """What a settings string says of device memory, in bytes."""

    max_split_size: int = c.UNLIMITED
    max_non_split_rounding: int = 20 * MIB
    large_segment_size: int = 20 * MIB
    divisions: list[int] = field(default_factory=lambda: [0] * INTERVALS)
    garbage_collection_threshold: float = 0.0
    expandable_segments: bool = False
    memory_fraction: float = 1.0
    throw_on_cudamalloc_oom: bool = False
    reserve: float | None = None  #: address space of an expandable segment, as a part of the device's memory
    reserve_bytes: int | None = None  #: or in bytes


def apply(
    settings: CachingSettings, version: Version, total_bytes: int, A: c.Caching, driver: int = c.FIRST_FIT
) -> None:
    """Write settings into a new state of a device of that size, whose driver places memory so."""
    K = A.K
    K[c.K_TOTAL] = total_bytes
    K[c.K_LIMIT] = K[c.K_GARBAGE] = K[c.K_EARLY_LIMIT] = c.NONE
    K[c.K_MAX_SPLIT] = settings.max_split_size
    K[c.K_MAX_ROUNDING] = settings.max_non_split_rounding
    K[c.K_LARGE_SEGMENT] = settings.large_segment_size
    K[c.K_EXPANDABLE] = settings.expandable_segments
    K[c.K_RESERVE] = full = total_bytes + total_bytes // 8
    if settings.reserve is not None:
        K[c.K_RESERVE] = int(min(float(full), settings.reserve * float(total_bytes)))
    if settings.reserve_bytes is not None:
        K[c.K_RESERVE] = min(full, settings.reserve_bytes)
    K[c.K_DRIVER] = driver
    K[c.K_WASTES_SPACE] = version.wastes_space
    K[c.K_TIES] = version.ties
    K[c.K_LATEST_FIRST] = version.latest_pool_first
    K[c.K_POOLS_HOLD] = version.pools_hold_events
    K[c.K_POOLS_EMPTY] = version.empties_in_pools
    K[c.K_DIVISIONS : c.K_DIVISIONS + INTERVALS] = settings.divisions
    if settings.throw_on_cudamalloc_oom:
        # The fraction of the settings string counts here, not one that is set later.
        K[c.K_EARLY_LIMIT] = int(settings.memory_fraction * float(total_bytes))
    if settings.memory_fraction < 1.0:
        limit(settings, version, total_bytes, settings.memory_fraction, A)


def limit(settings: CachingSettings, version: Version, total_bytes: int, fraction: float, A: c.Caching) -> None:
    """set_per_process_memory_fraction: the limit, and from when on garbage is collected."""
    K = A.K
    K[c.K_LIMIT] = K[c.K_GARBAGE] = c.NONE
    if fraction < 1.0 or not version.whole_is_no_limit:
        K[c.K_LIMIT] = int(fraction * float(total_bytes))
        if settings.garbage_collection_threshold > 0:
            K[c.K_GARBAGE] = int(settings.garbage_collection_threshold * float(K[c.K_LIMIT]))
