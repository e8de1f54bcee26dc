"""The space of policies: what can be chosen, and one point in it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from coopsim.base.types import (
    CoopsimError,
    Cost,
    Dead,
    Divisor,
    InPlace,
    Lose,
    Node,
    OffloadState,
    Pinning,
    Placement,
    Planning,
    Recency,
    Release,
    Search,
    SmallArea,
)

LEARNS = 2  #: iterations of a trace after which a policy that plans has its plan


@dataclass(frozen=True)
class Policy:
    """One policy. score = cost / recency / divisor; the least is evicted first."""

    name: str
    summary: str = ""
    source: str = ""
    cost: Cost = Cost.SET
    divisor: Divisor = Divisor.NOTHING
    recency: Recency = Recency.STALENESS
    search: Search = Search.GREEDY
    placement: Placement = Placement.LOW
    in_place: InPlace = InPlace.COPY
    release: Release = Release.EAGER
    dead: Dead = Dead.RELEASE
    pinning: Pinning = Pinning.SOUND
    planning: Planning = Planning.NONE
    node: Node = Node.VALUE
    small_area: SmallArea = SmallArea.OFF
    lose: Lose = Lose.RECOMPUTE
    offload_state: OffloadState = OffloadState.NO
    aliases: tuple[str, ...] = ()
    score: Callable[[float, float, float, float], float] | None = None  # of your own: (cost, recency, bytes, hole)
    choose: Callable[[Any, int], Iterable[int]] | None = None  # of your own: (memory, need), replaces the search
    own: Any = None  # an EvictionPolicy, whose class and parameters each replay makes an instance of

    def __post_init__(self) -> None:
        """A choice may be given by its word. CoopsimError for a field that is of no use."""
        for field, kind in CHOICES.items():
            value = getattr(self, field)
            if isinstance(value, kind):
                continue
            if value not in list(kind):
                raise CoopsimError(f"policy {self.name}: {field} is {value!r:.40}; it is {' or '.join(kind)}")
            object.__setattr__(self, field, kind(value))
        if self.plans and self.lose == Lose.OFFLOAD:
            raise CoopsimError(f"policy {self.name}: a plan that offloads also recomputes; write lose=either")
        if self.offload_state == OffloadState.YES and not self.offloads:
            raise CoopsimError(f"policy {self.name}: offload_state=yes needs lose=offload or lose=either")
        if self.plans and (self.choose or hasattr(self.own, "choose")):
            raise CoopsimError(f"policy {self.name}: a search of your own goes without plans; write planning=none")

    @property
    def plans(self) -> bool:
        """Whether it goes by a plan, where it can make one."""
        return self.planning != Planning.NONE

    @property
    def is_own(self) -> bool:
        """Whether functions or a class of a user's take part."""
        return bool(self.score or self.choose or self.own)

    @property
    def offloads(self) -> bool:
        """Whether it may copy values to the host."""
        return self.lose != Lose.RECOMPUTE


CHOICES: dict[str, type[StrEnum]] = {
    "cost": Cost,
    "divisor": Divisor,
    "recency": Recency,
    "search": Search,
    "placement": Placement,
    "in_place": InPlace,
    "release": Release,
    "dead": Dead,
    "pinning": Pinning,
    "planning": Planning,
    "node": Node,
    "small_area": SmallArea,
    "lose": Lose,
    "offload_state": OffloadState,
}
