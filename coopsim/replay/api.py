"""Replay a trace under a policy and a budget: what users call."""

from typing import Any

import numpy as np

from coopsim import allocators, policies
from coopsim.allocators import Allocator
from coopsim.link import Link
from coopsim.options import ReplayOptions
from coopsim.planning.request import PlanRequest
from coopsim.policies import Policy
from coopsim.replay.once import OneReplay
from coopsim.replay.result import schedule_of
from coopsim.schedule import Schedule
from coopsim.trace.build import TraceBuilder
from coopsim.trace.named import load_trace
from coopsim.trace.table import Trace
from coopsim.types import CoopsimError, CostModel, RandomOps

_DEFAULT = ReplayOptions()


def replay(
    trace: Trace | str,
    policy: Policy | str,
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
) -> Schedule:
    """Replay a trace under a policy and a budget, and record every action.

    trace: a trace, or a name that `load` knows. policy: a name of `coopsim list policies`, `NAME:choice=value,…`,
    `FILE.py:NAME`, or a Policy. budget: for everything on the device, as on the command line, `"50%"` of the peak
    without eviction or `"6GiB"`; an integer is bytes. allocator: `arena`, `counter`, `cuda-caching` (the newest), or
    `cuda_caching(torch, conf)`. steps: how many training steps in one memory. cost_model: the cost that the policy
    decides with (`cost`, `bytes`, `flops`, `unit`); the reported cost is always the trace's. random: `recompute` (the
    generator's state is saved) or `keep` results of random ops. overhead_limit: total cost over this many times the
    cost without recomputation ends the replay as `thrash`. For policies that offload (docs/offload.md): link, a name of
    `coopsim list links` or a Link (default: that of the trace's card); host_memory, for copies, bytes or `"32GiB"`
    (default: no limit); host_bandwidth, GB/s of both directions together (default: 1.7 times the link's). Raises
    CoopsimError for arguments that make no sense; running out of memory is an outcome.
    """
    if host_memory is not None and not isinstance(host_memory, int):
        from coopsim.budget import parse

        host_memory = parse(host_memory, None, "host_memory")
    options = ReplayOptions(steps, cost_model, random, overhead_limit, link, host_memory, host_bandwidth)
    return record(load_trace(trace) if isinstance(trace, str) else trace, policy, budget, allocator, options)


def record(
    trace: Trace,
    policy: Policy | str,
    budget: int | str,
    allocator: Allocator | str = "arena",
    options: ReplayOptions = _DEFAULT,
) -> Schedule:
    """As `replay`, with the options as one value."""
    return follow(_request(trace, policy, budget, allocator, options))


def follow(request: PlanRequest) -> Schedule:
    """The schedule of a replay of what is requested, by plan where the policy plans."""
    this = OneReplay(request)
    return schedule_of(this, this.run(record=True))


def measure(
    trace: Trace,
    policy: Policy | str,
    budget: int | str,
    allocator: Allocator | str = "arena",
    options: ReplayOptions = _DEFAULT,
) -> dict[str, Any]:
    """Replay without a log: only the figures (metrics.summary's keys). What sweeps call."""
    from coopsim.metrics import summary

    this = OneReplay(_request(trace, policy, budget, allocator, options))
    return summary(schedule_of(this, this.run(record=False)))


def _request(
    trace: Trace, policy: Policy | str, budget: int | str, allocator: Allocator | str, options: ReplayOptions
) -> PlanRequest:
    if not isinstance(trace, Trace):
        raise CoopsimError(f"trace {trace!r} is no trace: coopsim.load(NAME) gives one")
    policy = policy if isinstance(policy, Policy) else policies.find(policy)
    allocator = allocators.find(allocator)
    return PlanRequest(trace, policy, _bytes(budget, trace, allocator), allocator, options)


def _bytes(budget: int | str, trace: Trace, allocator: Allocator) -> int:
    if isinstance(budget, int | np.integer) and not isinstance(budget, bool):
        budget = f"{budget}B"
    from coopsim.budget import parse
    from coopsim.trace.measure import peak_bytes

    return parse(budget, peak_bytes(trace, allocator.granule))


def warm_up(allocator: Allocator | str = "arena") -> None:
    """Compile in this process, so that others find the machine code."""
    b = TraceBuilder()
    x, y = b.storage(512, "input", alive_at_start=True), b.storage(512)
    b.op("aten.relu.default", reads=[x], creates=[y], cost_ns=1)
    b.free(y)
    measure(b.build({}), "coop", 32 << 20, allocator, ReplayOptions(steps=1))
