"""Thrift: Coop with the window that costs least for each byte, and neighbours that are alike.

It knows the past only. Six changes to Coop (docs/policies.md has figures): losing a value costs all its
evicted ancestors, where a union-find set also counts what has come back and misses what hangs on others; a window's
cost is divided by its bytes, because what is freed beyond the request serves the next ones; staleness is damped,
because what was used last is not needed at once in the forward pass, and what is old is not needed much later than
what is not quite as old; values that cost alike to lose, by what searches have seen, lie side by side, so that windows
need not take what is expensive with what is cheap; what cannot be evicted goes to the high end of the highest hole,
where no window needs to pass it; and what the program drops stays as long as something evicted would be made from it.
"""

from coopsim.base.types import Cost, Dead, InPlace, Placement, Recency, Release, Search
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="thrift",
    summary="window with the least cost per byte; cost of all evicted ancestors; values of similar cost side by side",
    source="ours; docs/policies.md",
    cost=Cost.ANCESTORS,
    recency=Recency.DAMPED,
    search=Search.WINDOW_THRIFTY,
    placement=Placement.PREFERRED,
    in_place=InPlace.RECOMPUTABLE,
    release=Release.NEEDED,
    dead=Dead.NEEDED,
)
