"""Coop as its authors' program decides, row for row.

The window is their loop: the last one is never shrunk, and a score of inf that has entered it hides others until the
next barrier (replay/search.py, `published_window`). Their bookkeeping is theirs, too: docs/replay.md has a table of
what it does otherwise than `coop`, each a choice of its own. Outputs are pinned while a recomputed op allocates, which
OneFlow's last version leaves out: docs/replay.md says why that is not modelled.
"""

from coopsim.base.types import Cost, Dead, InPlace, Node, Placement, Release, Search
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="coop-oneflow",
    summary="coop as its authors' program decides, quirks included",
    source="OneFlow remat, EvictAndFindPieceOnce; equal to its runs row for row",
    cost=Cost.SET,
    search=Search.WINDOW_PUBLISHED,
    placement=Placement.TWO_ENDED_OPS,
    in_place=InPlace.FIRST_RUN,
    release=Release.COUNTED,
    dead=Dead.UNSAVED,
    node=Node.STORAGE,
)
