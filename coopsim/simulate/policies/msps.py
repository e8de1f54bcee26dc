"""Most bytes freed for the least recomputation: (cost + evicted ancestors) / bytes, without regard to time.

Peng et al., "Capuchin" (ASPLOS 2020), memory saving per second, as DTR's paper compares it.
"""

from coopsim.base.types import Cost, Dead, Divisor, Recency
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="msps",
    summary="least (cost + evicted ancestors) / bytes",
    source="DTR, ICLR 2021, h_MSPS; after Capuchin, ASPLOS 2020",
    cost=Cost.ANCESTORS,
    divisor=Divisor.BYTES,
    recency=Recency.NOTHING,
    dead=Dead.KEEP,
)
