"""The choices of types.py, and the allocators, as the integers that kernels know them by.

Each is the place of a choice in its enum, taken from there, so that the order of an enum may change.
"""

from enum import Enum
from functools import cache

from coopsim.base.types import (
    Action,
    Cost,
    Dead,
    Divisor,
    InPlace,
    Lose,
    Node,
    Outcome,
    Placement,
    Recency,
    Release,
    Search,
)


def code(choice: Enum) -> int:
    """The integer of a choice.

    >>> [code(choice) for choice in Divisor]
    [0, 1, 2]
    """
    return _places(type(choice))[choice]


@cache
def _places(kind: type[Enum]) -> dict[Enum, int]:
    """Of an enum, not of a choice: choices of different enums are equal where their words are."""
    return {choice: place for place, choice in enumerate(kind)}


COST_NONE = code(Cost.NONE)
COST_OWN = code(Cost.OWN)
COST_SET = code(Cost.SET)
COST_CLASSES = code(Cost.CLASSES)
COST_NEIGHBOURHOOD = code(Cost.NEIGHBOURHOOD)
COST_ANCESTORS = code(Cost.ANCESTORS)
COST_PROJECTED = code(Cost.PROJECTED)
COST_RANDOM = code(Cost.RANDOM)

DIVISOR_NOTHING = code(Divisor.NOTHING)
DIVISOR_HOLE = code(Divisor.HOLE)

RECENCY_STALENESS = code(Recency.STALENESS)
RECENCY_NEXT_USE = code(Recency.NEXT_USE)
RECENCY_DAMPED = code(Recency.DAMPED)

SEARCH_GREEDY = code(Search.GREEDY)
SEARCH_WINDOW_PUBLISHED = code(Search.WINDOW_PUBLISHED)
SEARCH_WINDOW_THRIFTY = code(Search.WINDOW_THRIFTY)

PLACEMENT_LOW = code(Placement.LOW)
PLACEMENT_TWO_ENDED_OPS = code(Placement.TWO_ENDED_OPS)
PLACEMENT_PREFERRED = code(Placement.PREFERRED)

IN_PLACE_FIRST_RUN = code(InPlace.FIRST_RUN)

LOSE_RECOMPUTE = code(Lose.RECOMPUTE)
LOSE_EITHER = code(Lose.EITHER)

NODE_STORAGE = code(Node.STORAGE)

RELEASE_EAGER = code(Release.EAGER)
RELEASE_BANISH = code(Release.BANISH)
RELEASE_NEEDED = code(Release.NEEDED)
RELEASE_COUNTED = code(Release.COUNTED)

DEAD_RELEASE = code(Dead.RELEASE)
DEAD_NEEDED = code(Dead.NEEDED)
DEAD_UNSAVED = code(Dead.UNSAVED)

OUTCOME_OK = code(Outcome.OK)
OUTCOME_OOM = code(Outcome.OOM)
OUTCOME_THRASH = code(Outcome.THRASH)
OUTCOME_LOST = code(Outcome.LOST)

# Rows of a schedule have the values of Action, which its files name.
COMPUTE = int(Action.COMPUTE)
RECOMPUTE = int(Action.RECOMPUTE)
ALLOC = int(Action.ALLOC)
EVICT = int(Action.EVICT)
RELEASE = int(Action.RELEASE)
FREE = int(Action.FREE)
MOVE = int(Action.MOVE)
REFUSE = int(Action.REFUSE)
OFFLOAD = int(Action.OFFLOAD)
FETCH = int(Action.FETCH)
DISCARD = int(Action.DISCARD)

# What else a policy of a user's is told or asked, beside the rows.
USED, STEP, SEARCH = range(len(Action), len(Action) + 3)
SCORES, WHERE = range(SEARCH + 1, SEARCH + 3)  # a compiled search reads scores; addresses or last uses

ARENA, COUNTER, CACHING = range(3)
