"""Any evictable value, by a seeded generator: what a policy must beat to know anything.

Every candidate draws a number (Park and Miller's generator, from the replay's seed) and the least goes.
"""

from coopsim.base.types import Cost, Dead, Recency
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="random",
    summary="a seeded random choice, one at a time until a hole fits",
    source="DTR, ICLR 2021, h_rand",
    cost=Cost.RANDOM,
    recency=Recency.NOTHING,
    dead=Dead.KEEP,
)
