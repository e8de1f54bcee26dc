"""Allocators over a stream of requests: no eviction, and no say in the order. One file each.

`STREAM_ALLOCATORS` is the one list of them: a name, and what serves a stream and says how it went.
"""

from collections.abc import Callable, Mapping

from coopsim.allocators.streams import caching, gmlake, planned
from coopsim.allocators.streams.requests import GRANULE, Requests, requests_of
from coopsim.allocators.streams.result import OutOfMemory, Result

__all__ = ["GRANULE", "STREAM_ALLOCATORS", "OutOfMemory", "Requests", "Result", "requests_of"]

STREAM_ALLOCATORS: Mapping[str, Callable[[Requests], Result]] = {
    "cuda-caching": caching.run,
    "cuda-caching, expandable": lambda requests: caching.run(
        requests, caching.Options(conf="expandable_segments:True")
    ),
    "gmlake": gmlake.run,
    "planned": planned.run,
}
