"""DTR as its paper has it: (own cost + all evicted ancestors and descendants) / (bytes x staleness).

Kirisame et al., "Dynamic Tensor Rematerialization" (ICLR 2021), h_DTR with the exact neighbourhood e*, ancestors and
descendants summed separately as in its simulator. In an arena it evicts until a contiguous hole fits, which the
paper, counting bytes, does not model. Recomputed values stay until they are chosen. Each score walks the evicted
neighbourhood: slow where much is evicted.
"""

from coopsim.base.types import Cost, Dead, Divisor
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="dtr",
    summary="least (cost + evicted neighbourhood) / (bytes x staleness)",
    source="DTR, ICLR 2021, h_DTR with exact e*",
    cost=Cost.NEIGHBOURHOOD,
    divisor=Divisor.BYTES,
    dead=Dead.KEEP,
)
