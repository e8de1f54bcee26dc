"""Replay a trace under a policy and a budget: what users call."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from coopsim.base.progress import note
from coopsim.base.types import CoopsimError, CostModel, RandomOps
from coopsim.cards.link import Link
from coopsim.simulate import allocators, policies
from coopsim.simulate.allocators import Allocator
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.planning.request import PlanRequest
from coopsim.simulate.policies import AnyPolicy, Policy
from coopsim.simulate.replay.once import OneReplay
from coopsim.simulate.replay.result import schedule_of
from coopsim.trace.build import TraceBuilder
from coopsim.trace.named import load_trace
from coopsim.trace.schedule import Schedule
from coopsim.trace.table import Trace

_DEFAULT = ReplayOptions()


def replay(
    trace: Trace | str,
    policy: AnyPolicy,
    budget: int | str,
    allocator: Allocator | str = "arena",
    *,
    steps: int = _DEFAULT.steps,
    cost_model: CostModel | str = _DEFAULT.cost_model,
    random: RandomOps | str = _DEFAULT.random,
    overhead_limit: float = _DEFAULT.overhead_limit,
    link: str | Link = _DEFAULT.link,
    host_memory: int | str | None = _DEFAULT.host_memory,
    host_bandwidth: float | None = _DEFAULT.host_bandwidth,
    seed: int = _DEFAULT.seed,
) -> Schedule:
    """Replay a trace under a policy and a budget, and record every action.

    trace: a trace, or a name that `load` knows. policy: a name of `coopsim list policies`, `NAME:choice=value,…`,
    `FILE.py:NAME`, a Policy, or an EvictionPolicy, the class or `Gds(alpha=0.7)`. budget: for everything on the device,
    as on the command line, `"50%"` of the peak
    without eviction or `"6GiB"`; an integer is bytes. allocator: `arena`, `counter`, `cuda-caching` (the newest), or
    `cuda_caching(torch, conf)`. steps: how many training steps in one memory. cost_model: the cost that the policy
    decides with (`cost`, `bytes`, `flops`, `unit`); the reported cost is always the trace's. random: `recompute` (the
    generator's state is saved) or `keep` results of random ops. overhead_limit: total cost over this many times the
    cost without recomputation ends the replay as `thrash`. For policies that offload: link, a name of
    `coopsim list links` or a Link (default: that of the trace's card); host_memory, for copies, bytes or `"32GiB"`
    (default: no limit); host_bandwidth, GB/s of both directions together (default: 1.7 times the link's). Raises
    CoopsimError for arguments that make no sense; running out of memory is an outcome.
    """
    if host_memory is not None and not isinstance(host_memory, int):
        from coopsim.base.budget import parse

        host_memory = parse(host_memory, None, "host_memory")
    options = ReplayOptions(steps, cost_model, random, overhead_limit, link, host_memory, host_bandwidth, seed)
    return record(load_trace(trace) if isinstance(trace, str) else trace, policy, budget, allocator, options)


def record(
    trace: Trace,
    policy: AnyPolicy,
    budget: int | str,
    allocator: Allocator | str = "arena",
    options: ReplayOptions = _DEFAULT,
) -> Schedule:
    """As `replay`, with the options as one value."""
    request = _request(trace, policy, budget, allocator, options)
    with _begun_anew(request.policy, policy):
        return follow(request)


def follow(request: PlanRequest) -> Schedule:
    """The schedule of a replay of what is requested, by plan where the policy plans."""
    this = OneReplay(request)
    return schedule_of(this, this.run(record=True))


def measure(
    trace: Trace,
    policy: AnyPolicy,
    budget: int | str,
    allocator: Allocator | str = "arena",
    options: ReplayOptions = _DEFAULT,
) -> dict[str, Any]:
    """Replay without a log: only the figures (metrics.summary's keys)."""
    request = _request(trace, policy, budget, allocator, options)
    with _begun_anew(request.policy, policy):
        return figures(request)


def figures(request: PlanRequest) -> dict[str, Any]:
    """The figures of a replay of what is requested. What sweeps call."""
    from coopsim.simulate.metrics import summary

    this = OneReplay(request)
    return summary(schedule_of(this, this.run(record=False)))


@contextmanager
def _begun_anew(policy: Policy, named: AnyPolicy) -> Iterator[None]:
    """A replay inside, which the next one of the policy does not depend on, if the policy goes by name.

    Else it is said on stderr if the replay has changed what the policy's code reads; and what of that cannot be known.
    """
    with policies.watched(policy) as left:
        yield
    if (left.changed or left.unknown) and isinstance(named, str):
        policies.forget(named)
    told = ""
    if left.changed and not isinstance(named, str):
        told = f"has changed {left.changed!r}, which outlives the replay; an EvictionPolicy's state begins anew in each"
    elif left.unknown:
        told = f"may decide otherwise in another replay: {left.unknown} cannot be known"
    if told and policy.name not in _told:
        _told.add(policy.name)
        note(f"note: policy {policy.name} {told}")


_told = set[str]()  #: policies of which that has been said


def _request(
    trace: Trace, policy: AnyPolicy, budget: int | str, allocator: Allocator | str, options: ReplayOptions
) -> PlanRequest:
    if not isinstance(trace, Trace):
        raise CoopsimError(f"trace {trace!r} is no trace: coopsim.load(NAME) gives one")
    allocator = allocators.find(allocator)
    return PlanRequest(trace, policies.find(policy), _bytes(budget, trace, allocator), allocator, options)


def _bytes(budget: int | str, trace: Trace, allocator: Allocator) -> int:
    if isinstance(budget, int | np.integer) and not isinstance(budget, bool):
        budget = f"{budget}B"
    from coopsim.base.budget import parse
    from coopsim.trace.measure import peak_bytes

    return parse(budget, peak_bytes(trace, allocator.granule))


def warm_up(allocator: Allocator | str = "arena") -> None:
    """Compile in this process, so that others find the machine code."""
    b = TraceBuilder()
    x, y = b.storage(512, "input", alive_at_start=True), b.storage(512)
    b.op("aten.relu.default", reads=[x], creates=[y], cost_ns=1)
    b.free(y)
    measure(b.build({}), "coop", 32 << 20, allocator, ReplayOptions(steps=1))
