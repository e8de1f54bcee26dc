"""Largest first: as few evictions as possible, whatever they cost to make good.

GREEDY of Kumar et al. (2019), as DTR's paper compares it.
"""

from coopsim.base.types import Cost, Dead, Divisor, Recency
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="largest",
    summary="the largest first, one at a time until a hole fits",
    source="DTR, ICLR 2021, h_size",
    cost=Cost.NONE,
    divisor=Divisor.BYTES,
    recency=Recency.NOTHING,
    dead=Dead.KEEP,
)
