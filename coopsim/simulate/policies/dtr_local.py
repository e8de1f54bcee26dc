"""DTR with a value's own cost only: cost / (bytes x staleness), blind to what is evicted around it.

h_DTR_local of Kirisame et al. (ICLR 2021): the cheapest to compute, and it drops whole chains.
"""

from coopsim.base.types import Cost, Dead, Divisor
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="dtr-local",
    summary="least own cost / (bytes x staleness)",
    source="DTR, ICLR 2021, h_DTR_local",
    cost=Cost.OWN,
    divisor=Divisor.BYTES,
    dead=Dead.KEEP,
)
