"""What a replay may be told besides its trace, policy, budget and allocator."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypeVar

from coopsim.errors import unknown
from coopsim.types import CoopsimError, CostModel, RandomOps

_MOST_STEPS = 1_000_000
_E = TypeVar("_E", bound=StrEnum)


@dataclass(frozen=True)
class ReplayOptions:
    """Options of a replay. CoopsimError for a value that makes no sense.

    steps: how many training steps in one memory. cost_model: the cost that the policy decides with; the reported cost
    is always the trace's. random: whether results of random ops may be recomputed (the generator's state is saved).
    overhead_limit: total cost over this many times the cost without recomputation ends the replay as `thrash`.
    """

    steps: int = 10
    cost_model: CostModel | str = CostModel.COST
    random: RandomOps | str = RandomOps.RECOMPUTE
    overhead_limit: float = 10.0

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # of a frozen value, while it is made
        set_field(self, "cost_model", _one_of("cost_model", self.cost_model, CostModel))
        set_field(self, "random", _one_of("random", self.random, RandomOps))
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or not 1 <= self.steps <= _MOST_STEPS:
            raise CoopsimError(f"steps: {self.steps!r} is not a whole number from 1 to a million")
        limit = self.overhead_limit
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 1:
            raise CoopsimError(f"overhead_limit: {limit!r} is not a number from 1")
        set_field(self, "overhead_limit", float(limit))

    def as_dict(self) -> dict[str, Any]:
        """The options by name, as a schedule's header and JSON have them."""
        return {name: str(v) if isinstance(v, StrEnum) else v for name, v in vars(self).items()}


NAMES = tuple(field.name for field in fields(ReplayOptions))


def _one_of(name: str, value: Any, known: type[_E]) -> _E:
    if value not in list(known):
        raise unknown(name, str(value), [str(v) for v in known])
    return known(value)
