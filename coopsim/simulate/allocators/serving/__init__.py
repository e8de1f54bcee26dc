"""Allocators that serve the requests of a program: no eviction, and no say in the order. One file each.

`SERVING` is the one list of them: a name, and what serves requests and says how it went.
"""

from collections.abc import Callable, Mapping

from coopsim.base.alloc_conf import EXPANDABLE
from coopsim.base.types import GRANULE
from coopsim.simulate.allocators.serving import caching, gmlake, planned, release
from coopsim.simulate.allocators.serving.result import Result, ServingOutOfMemory
from coopsim.trace.requests import Requests

__all__ = ["GRANULE", "SERVING", "Result", "ServingOutOfMemory"]

SERVING: Mapping[str, Callable[[Requests], Result]] = {
    "cuda-caching": caching.run,
    f"cuda-caching ({EXPANDABLE})": lambda requests: caching.run(requests, caching.CachingOptions(conf=EXPANDABLE)),
    "gmlake": gmlake.run,
    "planned": planned.run,
    "planned:release": release.run,
}
