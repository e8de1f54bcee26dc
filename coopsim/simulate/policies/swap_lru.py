"""Offload only, least recently used first: what papers on swapping compare themselves with.

Whatever it costs, and when room is needed, not before: nothing is planned and nothing is recomputed. SwapAdvisor
(ASPLOS 2020) and Capuchin (ASPLOS 2020) call swapping on demand their baseline.
"""

from coopsim.base.types import Cost, InPlace, Lose
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="swap-lru",
    summary="offload only, the longest unused first, when room is needed",
    source="on-demand swapping, the baseline of SwapAdvisor and Capuchin (ASPLOS 2020)",
    cost=Cost.NONE,
    in_place=InPlace.RECOMPUTABLE,
    lose=Lose.OFFLOAD,
)
