"""What is asked for: an iteration of a trace under a policy, in so much memory; and the plan that answers.

An *idle interval* of a value is the time from when it is made, or from one of its uses, to its next use (or to its
end). The one after the first k uses of value v has the number v + V[v, USES] + k. A value is in memory throughout it
(STAY), is dropped as it begins and stays dropped until the next use (LEAVE), or is dropped and stays from when a
recomputation of others needs it (LEAVE_ONCE).
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from coopsim.base.types import CostModel, InPlace, RandomOps, Release, Role
from coopsim.cards import link
from coopsim.cards.link import Link
from coopsim.simulate.allocators import ARENA, Allocator
from coopsim.simulate.kernel import state as s
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.planning.lower import KEPT_ROLES, lower
from coopsim.simulate.planning.program import Program
from coopsim.simulate.policies import Policy
from coopsim.trace.table import Trace

STAY, LEAVE, LEAVE_ONCE = range(3)
REQUEST_VALUE, REQUEST_ADDRESS = range(2)


@dataclass(frozen=True)
class ResidencyPlan:
    """Decisions for all idle intervals, and for each request of the iteration, in order, its value and address.

    below: of each request, which of those before it lies next below its address then, of what is in memory: a number in
    their order, which begins with what was there at the start; -1: none.
    """

    decisions: Any
    until: s.Array
    requests: s.Array
    below: s.Array
    away: s.Array  # its copies, in order (kernel/state.py)
    cost: int  # decision cost of the recomputations of the iteration
    peak: int  # most bytes in memory
    height: int  # the end of the highest of them

    def __post_init__(self) -> None:
        for array in (self.decisions, self.until, self.requests, self.below, self.away):
            array.setflags(write=False)


@dataclass(frozen=True)
class Copying:
    """What copies take: rows as State.copies at the start of an iteration (HOST_AT: 0 if the host has a copy then),
    rates, the host's bytes for them, and for how long the engines are busy at first.

    first: OFFLOADABLE without parameters and the like, which are offloaded only where nothing else fits: they come back
    to other places, and the next iteration has to be planned around these. lasting: these may go before an op has used
    them, and first of all where nothing else fits. absent: values that only the host has when the iteration begins.
    leaving: those that only the host has to have when it ends.
    """

    rows: s.Array
    first: s.Array
    rate_mb_s: int
    shared_rate_mb_s: int
    host_budget: int
    out_busy: int
    in_busy: int
    lasting: bool = False
    absent: s.Array = field(default_factory=lambda: np.zeros(0, np.int64))
    leaving: s.Array = field(default_factory=lambda: np.zeros(0, np.int64))


def offloadable(program: Program, trace: Trace, *, state_too: bool) -> Any:
    """Of each value whether it may be offloaded.

    state_too: also what no op makes, what the next iteration takes over, and parameters, gradients, optimizer state and
    buffers. Temporaries never.
    """
    kept = np.array([role in KEPT_ROLES for role in trace.role] + [False])
    only_there = (program.values[:, s.PRODUCER] < 0) | kept[program.storage]
    only_there[program.carry[:, s.FROM]] = True
    return (program.storage >= 0) & (state_too | ~only_there)


def copies(program: Program, trace: Trace, link: Link, *, state_too: bool) -> s.Array:
    """The rows of `State.copies`, before anything is copied."""
    values = program.values
    rows = np.zeros((len(values), s.COPIES_COLUMNS), np.int64)
    rows[:, s.OFFLOADABLE] = offloadable(program, trace, state_too=state_too)
    rows[:, s.COPY_NS] = [link.alone_ns(n) for n in values[:, s.BYTES].tolist()]
    rows[:, s.HOST_AT] = s.NO_COPY
    return rows


@dataclass(frozen=True)
class IterationStart:
    """The addresses of what is in memory when an iteration begins, in the order of Program.initial.

    copying: None where nothing may be offloaded.
    """

    placed: s.Array
    copying: Copying | None = None


_USUAL = ReplayOptions()
_ROOMY = 4  #: times the budget, the size of an arena in which addresses are always found


@dataclass(frozen=True, eq=False)
class PlanRequest:
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
        return link.find(options.link, options.host_bandwidth, self.trace.header) if self.policy.offloads else None

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
