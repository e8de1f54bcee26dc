"""Coop without recomputable in-place: every in-place op copies. An ablation of the paper."""

from coopsim.policies import Policy
from coopsim.types import Cost, Placement, Search

POLICY = Policy(
    name="coop-no-in-place",
    summary="coop with copy on write",
    source="Coop, NeurIPS 2023, ablation",
    cost=Cost.SET,
    search=Search.WINDOW,
    placement=Placement.TWO_ENDED,
)
