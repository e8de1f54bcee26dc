"""DTR as the Coop authors built it: cost / (bytes x staleness), one tensor at a time until a contiguous hole fits.

OneFlow's ONEFLOW_REMAT_HEURISTIC_DTR with copy on write. Not DTR's paper: the cost counts evicted inputs and siblings
only, through union-find sets. Evicts blind to addresses, so it may drop much and still find no hole.
"""

from coopsim.base.types import Cost, Dead, Divisor, InPlace, Node, Release
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="dtr-oneflow",
    summary="least cost / (bytes x staleness), one at a time until a hole fits",
    source="OneFlow remat, HEURISTIC_DTR; after Kirisame et al., ICLR 2021",
    cost=Cost.SET,
    divisor=Divisor.BYTES,
    in_place=InPlace.COPY_OUTPUTS,
    release=Release.COUNTED,
    dead=Dead.UNSAVED,
    node=Node.STORAGE,
)
