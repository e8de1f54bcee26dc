"""What is asked for: an iteration of a trace under a policy, in so much memory, and what its plan has to keep to."""

from dataclasses import dataclass
from functools import cached_property

from coopsim import link
from coopsim.allocators import ARENA, Allocator
from coopsim.link import Link
from coopsim.options import ReplayOptions
from coopsim.policies import Policy
from coopsim.program.arrays import Program
from coopsim.program.lower import lower
from coopsim.trace.table import Trace
from coopsim.types import CostModel, InPlace, RandomOps, Release, Role

_USUAL = ReplayOptions()
_ROOMY = 4  #: times the budget, the size of an arena in which addresses are always found


@dataclass(frozen=True, eq=False)
class Request:
    """An iteration of a trace, and what a plan for it has to keep to.

    budget: bytes that may be in memory at once. addresses: whether each value needs its place in them; if not, they may
    lie wherever there is room. options: with the link and the host's bytes, if the policy offloads.

    segmented: the plan is in the shape of checkpointing. spare: of each op, bytes that are left unused while it runs;
    (): none. held: storages that are in memory at the end; what of them has left comes back. away: those that only the
    host has when the iteration begins, and when it ends. persistent: roles of what stays from one iteration to the
    next, and may be offloaded as anything else, also before an op has used it; with none, what stays is offloaded only
    where nothing else fits. markers: pseudo-ops at the end, which nothing runs: for what they read, nothing is run
    again or waited for, but for the last.
    """

    trace: Trace
    policy: Policy
    budget: int
    allocator: Allocator = ARENA
    options: ReplayOptions = _USUAL
    addresses: bool = True
    segmented: bool = False
    spare: tuple[int, ...] = ()
    held: frozenset[int] = frozenset()
    away: frozenset[int] = frozenset()
    persistent: frozenset[Role] = frozenset()
    markers: frozenset[int] = frozenset()

    @cached_property
    def program(self) -> Program:
        """The trace as arrays, with what is spared and held."""
        policy, options = self.policy, self.options
        return lower(
            self.trace,
            in_place=policy.in_place,
            pinning=policy.pinning,
            granule=self.allocator.granule,
            cost_model=CostModel(options.cost_model),
            keep_random=options.random == RandomOps.KEEP,
            counted=policy.release == Release.COUNTED,
            spare=self.spare,
            held=self.held,
        )

    @cached_property
    def link(self) -> Link | None:
        """What copies go over; None if the policy does not offload. CoopsimError for a link that is not known."""
        options = self.options
        return link.find(options.link, options.host_bandwidth, self.trace) if self.policy.offloads else None

    @property
    def memory_bytes(self) -> int:
        """The size of the memory, in whole blocks."""
        granule = self.allocator.granule
        return (self.budget if self.addresses else _ROOMY * self.budget) // granule * granule

    @property
    def target_bytes(self) -> int:
        """What a plan may have in memory at once."""
        return self.memory_bytes if self.addresses else self.budget

    @property
    def in_place_once(self) -> bool:
        """Whether only an op's first run is in place."""
        return self.policy.in_place == InPlace.FIRST_RUN
