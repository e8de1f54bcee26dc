"""Coop: evict the cheapest contiguous window, keep cheap and expensive tensors apart, recompute in-place ops in place.

Zhang et al., "Coop: Memory is not a Commodity" (NeurIPS 2023), in the form of the authors' code in OneFlow. The
window is the corrected one: the published loop never shrinks the last window and loses windows after an infinite
score. Each part is a switch: `coop:search=greedy,divisor=hole` (no layout-aware eviction), `coop:placement=low` (no
partitioning), `coop:in_place=copy_outputs`, as the authors' ablation has it.
"""

from coopsim.base.types import Cost, Divisor, InPlace, Placement, Search
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="coop",
    summary="cheapest contiguous window; two-ended placement; recomputable in-place",
    source="Coop, NeurIPS 2023; OneFlow remat (window corrected)",
    cost=Cost.SET,
    divisor=Divisor.NOTHING,
    search=Search.WINDOW,
    placement=Placement.TWO_ENDED,
    in_place=InPlace.RECOMPUTABLE,
)
