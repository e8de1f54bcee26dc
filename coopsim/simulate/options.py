"""What a replay may be told besides its trace, policy, budget and allocator."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, TypeVar

from coopsim.base.errors import named, unknown
from coopsim.base.types import CoopsimError, CostModel, RandomOps
from coopsim.cards import link
from coopsim.cards.link import Link

_MOST_STEPS = 1_000_000
MOST_SEED = 1 << 31
_E = TypeVar("_E", bound=StrEnum)


@dataclass(frozen=True)
class ReplayOptions:
    """Options of a replay. CoopsimError for a value that makes no sense.

    steps: how many training steps in one memory. cost_model: the cost that the policy decides with; the reported cost
    is always the trace's. random: whether results of random ops may be recomputed (the generator's state is saved).
    overhead_limit: total cost over this many times the cost without recomputation ends the replay as `thrash`. seed: of
    the policy's chance, if it has any.

    Where the policy offloads: link, a name of coopsim.cards.link or a Link (empty: that of the trace's card);
    host_memory, bytes for copies (None: no limit); host_bandwidth, GB/s of both directions together (None: 1.7 times
    the link's).
    """

    steps: int = 10
    cost_model: CostModel | str = CostModel.COST
    random: RandomOps | str = RandomOps.RECOMPUTE
    overhead_limit: float = 10.0
    link: str | Link = ""
    host_memory: int | None = None
    host_bandwidth: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # of a frozen value, while it is made
        set_field(self, "cost_model", _one_of("cost_model", self.cost_model, CostModel))
        set_field(self, "random", _one_of("random", self.random, RandomOps))
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or not 1 <= self.steps <= _MOST_STEPS:
            raise CoopsimError(f"steps: {self.steps!r} is not a whole number from 1 to a million")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < MOST_SEED:
            raise CoopsimError(f"seed: {self.seed!r} is not a whole number from 0 to {MOST_SEED - 1}")
        limit = self.overhead_limit
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 1:
            raise CoopsimError(f"overhead_limit: {limit!r} is not a number from 1")
        set_field(self, "overhead_limit", float(limit))
        host = self.host_memory
        if host is not None and (isinstance(host, bool) or not isinstance(host, int) or not 0 <= host < 1 << 60):
            raise CoopsimError(f"host_memory: {host!r} is not a number of bytes")
        bandwidth = self.host_bandwidth
        named("link", self.link) if not isinstance(self.link, Link) else None
        if bandwidth is not None and (isinstance(bandwidth, bool) or not isinstance(bandwidth, int | float)):
            raise CoopsimError(f"host_bandwidth: {bandwidth!r} is not a number of GB/s")
        link.check(self.link, bandwidth)

    def as_dict(self) -> dict[str, Any]:
        """The options by name, as a schedule's header and JSON have them; without those of policies that offload."""
        return {
            name: str(v) if isinstance(v, StrEnum) else v for name, v in vars(self).items() if name not in OF_COPIES
        }


NAMES = tuple(field.name for field in fields(ReplayOptions))
#: The column of a table that holds each option.
COLUMNS = {name: {"host_memory": "host_memory_bytes"}.get(name, name) for name in NAMES}
OF_COPIES = ("link", "host_memory", "host_bandwidth")


def _one_of(name: str, value: Any, known: type[_E]) -> _E:
    if value not in list(known):
        raise unknown(name, str(value), [str(v) for v in known])
    return known(value)
