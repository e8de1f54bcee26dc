"""Least recently used first, whatever it costs to make again: the floor that other policies must beat."""

from coopsim.base.types import Cost
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="lru",
    summary="the longest unused first, one at a time until a hole fits",
    source="classic",
    cost=Cost.NONE,
)
