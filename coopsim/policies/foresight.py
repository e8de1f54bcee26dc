"""Foresight: a plan, made from the step before, of what leaves memory when and of all addresses.

For training steps that repeat; the first goes as under Thrift, and if it runs out of memory begins anew as under Coop,
which fits where Thrift does not and the other way round. While a step goes as planned nothing is searched for;
the first surprise (another request, an address that is not free) ends the plan until the next step, and Thrift goes
on. The planner is coopsim/replay/periodic; docs/policies-ours.md says how it works.
"""

from coopsim.policies import Policy
from coopsim.types import Cost, Dead, InPlace, Placement, Planning, Recency, Release, Search

POLICY = Policy(
    name="foresight",
    summary="steps that repeat go by a plan made from the one before; else thrift",
    source="ours; docs/policies-ours.md",
    cost=Cost.ANCESTORS,
    recency=Recency.DAMPED,
    search=Search.WINDOW_THRIFTY,
    placement=Placement.APART,
    in_place=InPlace.RECOMPUTABLE,
    release=Release.NEEDED,
    dead=Dead.NEEDED,
    planning=Planning.REPEAT,
)
