"""Coop with the window as OneFlow's code searches it, quirks included.

The last window is never shrunk, and a score of inf that has entered the window hides others until the next barrier
(replay/search.py, `published_window`). Outputs are pinned while a recomputed op allocates, which OneFlow's last version
leaves out: docs/replay.md says why that is not modelled.
"""

from coopsim.policies import Policy
from coopsim.types import Cost, InPlace, Placement, Search

POLICY = Policy(
    name="coop-oneflow",
    summary="coop with the published search: cheapest contiguous window, with its quirks",
    source="OneFlow remat, EvictAndFindPieceOnce",
    cost=Cost.SET,
    search=Search.WINDOW_PUBLISHED,
    placement=Placement.TWO_ENDED,
    in_place=InPlace.RECOMPUTABLE,
)
