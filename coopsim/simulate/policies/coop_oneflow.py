"""Coop as its authors' program decides, row for row.

The window is their loop: the last one is never shrunk, and a score of inf that has entered it hides others until the
next barrier (replay/search.py, `published_window`). Their bookkeeping is theirs, too, each part a choice of its own
(experiments/expected/otherwise.csv has what each changes).

Not modelled: where a cost of 0 meets a staleness of 0, their program aborts (0 / 0); here the score is infinite. The
last version of OneFlow pins no output of an op that runs again before it has run (its `UpdateRematInfo` pins
afterwards; an earlier version pins before the allocation), so an output may be evicted for its sibling. Its pointer is
reset then (`TensorStorage::Release`), and the kernel has nowhere to write that result: by its code the run ends in an
illegal access, not in a schedule that could be simulated, and the judge would refuse one. Here the next value in line
is evicted, or the replay runs out of memory (tests/simulate/replay/test_quirks.py).
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
