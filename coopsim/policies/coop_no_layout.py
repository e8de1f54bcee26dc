"""Coop without layout-aware eviction: DTE's search, with Coop's placement and in-place. An ablation of the paper."""

from coopsim.policies import Policy
from coopsim.types import Cost, Divisor, InPlace, Placement

POLICY = Policy(
    name="coop-no-layout",
    summary="coop without the window: DTE's search instead",
    source="Coop, NeurIPS 2023, ablation",
    cost=Cost.SET,
    divisor=Divisor.HOLE,
    placement=Placement.TWO_ENDED,
    in_place=InPlace.RECOMPUTABLE,
)
