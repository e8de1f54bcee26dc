"""DTR with equivalence classes instead of exact neighbourhoods: classes merge on eviction and never split.

h_DTR_eq of Kirisame et al. (ICLR 2021), section 4.1: the cost of a value's class is taken off when it comes back, so
classes go on joining what is no longer evicted in between. Distinct classes of parents and children count once each,
as in DTR's simulator.
"""

from coopsim.base.types import Cost, Dead, Divisor
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="dtr-eq",
    summary="least (cost + classes of evicted parents and children) / (bytes x staleness)",
    source="DTR, ICLR 2021, h_DTR_eq",
    cost=Cost.CLASSES,
    divisor=Divisor.BYTES,
    dead=Dead.KEEP,
)
