"""DTE as the Coop authors built it in OneFlow: DTR, with the free bytes beside a tensor added to its size.

OneFlow's ONEFLOW_REMAT_HEURISTIC_DTE with copy on write: prefers victims that leave a large hole. Own cost counts,
unlike in MegEngine's form.
"""

from coopsim.base.types import Cost, Dead, Divisor, InPlace, Node, Release
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="dte-oneflow",
    summary="least cost / (bytes with adjacent free bytes x staleness), one at a time until a hole fits",
    source="OneFlow remat, HEURISTIC_DTE; after MegTaiChi, ICS 2022",
    cost=Cost.SET,
    divisor=Divisor.HOLE,
    in_place=InPlace.COPY_OUTPUTS,
    release=Release.COUNTED,
    dead=Dead.UNSAVED,
    node=Node.STORAGE,
    aliases=("dte",),
)
