"""Allocators over a stream of requests: no eviction, and no say in the order. One file each.

`STREAM_ALLOCATORS` is the one list of them: a name, and what serves a stream and says how it went.
"""

from collections.abc import Callable, Mapping

from coopsim.allocators.streams import caching, gmlake, planned
from coopsim.allocators.streams.requests import GRANULE, Requests, requests_of
from coopsim.allocators.streams.result import OutOfMemory, Result

__all__ = ["GRANULE", "STREAM_ALLOCATORS", "OutOfMemory", "Requests", "Result", "requests_of"]

_EXPANDABLE = "expandable_segments:True"

STREAM_ALLOCATORS: Mapping[str, Callable[[Requests], Result]] = {
    "cuda-caching": caching.run,
    f"cuda-caching ({_EXPANDABLE})": lambda requests: caching.run(requests, caching.Options(conf=_EXPANDABLE)),
    "gmlake": gmlake.run,
    "planned": planned.run,
}
