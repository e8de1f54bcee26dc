"""Thrift: Coop with a window chosen by what it costs for what it frees, and fixed values out of its way.

It knows the past only. Five changes to Coop (docs/policies-ours.md has the figures): losing a value costs all its
evicted ancestors, where a union-find set also counts what has come back and misses what hangs on others; a window's
cost is divided by its bytes to the power 3/4, because what is freed beyond the request serves the next ones;
staleness is damped, because in the forward pass what was used last is not needed at once; what cannot be evicted
goes to the high end of the highest hole, where no window needs to pass it; and what the program drops stays as long
as something evicted would be made from it.
"""

from coopsim.policies import Policy
from coopsim.types import Cost, Dead, InPlace, Placement, Recency, Release, Search

POLICY = Policy(
    name="thrift",
    summary="cheapest window for the bytes it frees; all evicted ancestors; fixed values apart",
    source="ours; docs/policies-ours.md",
    cost=Cost.ANCESTORS,
    recency=Recency.DAMPED,
    search=Search.WINDOW_THRIFTY,
    placement=Placement.APART,
    in_place=InPlace.RECOMPUTABLE,
    release=Release.NEEDED,
    dead=Dead.NEEDED,
)
