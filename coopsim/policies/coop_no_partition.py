"""Coop without cheap tensor partitioning: everything at the low end of its hole. An ablation of the paper."""

from coopsim.policies import Policy
from coopsim.types import Cost, InPlace, Search

POLICY = Policy(
    name="coop-no-partition",
    summary="coop with one-ended placement",
    source="Coop, NeurIPS 2023, ablation",
    cost=Cost.SET,
    search=Search.WINDOW,
    in_place=InPlace.RECOMPUTABLE,
)
