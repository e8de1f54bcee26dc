"""Collectives are never run again: what they made is kept until the program drops it, and what needs it is pinned."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopsim.base.types import Action, InPlace, Pinning, Role
from coopsim.simulate.kernel.state import EVICTABLE
from coopsim.simulate.planning.lower import lower
from coopsim.simulate.policies import Policy
from coopsim.simulate.replay import replay
from coopsim.study.validate import validate
from coopsim.trace import Trace, TraceBuilder
from tests.strategies import budget, dice, policies, repeatable, traces


def sharded(layers: int = 1, peers: int = 8) -> Trace:
    """A layer's weights are gathered, used, dropped, and gathered again for the backward pass, as FSDP does it.

    y = f(x, weights) needs them; z = g(y) does not.
    """
    b = TraceBuilder()
    x = b.storage(512, Role.INPUT, alive_at_start=True)
    shards = [b.storage(512, Role.PARAMETER, alive_at_start=True) for _ in range(layers)]
    at, made = x, []
    for shard in shards:
        weights, y, z = b.storage(4096), b.storage(1024), b.storage(2048)
        b.op("c10d.gather", reads=[shard], creates=[weights], cost_ns=50, peers=peers)
        b.op("aten.mm.default", reads=[at, weights], creates=[y], cost_ns=9)
        b.free(weights)
        b.op("aten.gelu.default", reads=[y], creates=[z], cost_ns=3)
        made.append((at, y, z))
        at = z
    gradient = b.storage(2048)
    b.op("aten.ones.default", creates=[gradient], cost_ns=1)
    for shard, (before, y, z) in zip(reversed(shards), reversed(made), strict=True):
        weights, of_y, whole, own = b.storage(4096), b.storage(1024), b.storage(4096), b.storage(512, Role.GRADIENT)
        b.op("c10d.gather", reads=[shard], creates=[weights], cost_ns=50, peers=peers)
        b.op("aten.gelu_backward.default", reads=[gradient, y, z], creates=[of_y], cost_ns=3)
        b.free(z)
        b.op("aten.mm.default", reads=[before, of_y], creates=[whole], cost_ns=9)
        b.op("c10d.reduce", reads=[whole], creates=[own], cost_ns=60, peers=peers)
        for storage in (weights, y, of_y, whole):
            b.free(storage)
        b.op("aten.add_.Tensor", reads=[own], mutates=[shard], cost_ns=1)
        b.free(own)
    b.free(gradient)
    return b.build({"model": "sharded"})


@pytest.mark.parametrize("pinning", Pinning)
@pytest.mark.parametrize("in_place", InPlace)
def test_what_may_go(in_place: InPlace, pinning: Pinning) -> None:
    trace = sharded()
    program = lower(trace, in_place=in_place, pinning=pinning, granule=512)
    evictable = {int(s) for s, row in zip(program.storage, program.values, strict=True) if row[EVICTABLE]}
    x, shard, weights, y, z, gradient, weights_again, of_y, whole, own = range(10)
    # y is used after the weights have gone that it is made from; z is made from y, which stays.
    assert evictable == {z, gradient, of_y, whole}
    assert {weights, y, weights_again, own} & evictable == set()
    without = replace(trace, peers=np.zeros(trace.n_ops, np.int64))
    program = lower(without, in_place=in_place, pinning=pinning, granule=512)
    evictable = {int(s) for s, row in zip(program.storage, program.values, strict=True) if row[EVICTABLE]}
    assert {weights, y, weights_again} <= evictable
    assert (x, shard) == (0, 1)


@pytest.mark.parametrize("pinning", Pinning)
def test_what_needs_a_gradient_that_is_updated_in_place(pinning: Pinning) -> None:
    """As declared, the gradient could be made again, but not what it was made from."""
    b = TraceBuilder()
    x = b.storage(512, Role.INPUT, alive_at_start=True)
    reduced, gradient, norm, other = b.storage(512), b.storage(512, Role.GRADIENT), b.storage(512), b.storage(512)
    b.op("c10d.reduce", reads=[x], creates=[reduced], cost_ns=1, peers=8)
    b.op("aten.mul.Tensor", reads=[reduced], creates=[gradient], cost_ns=1)
    b.op("aten.norm.Scalar", reads=[gradient], creates=[norm], cost_ns=1)
    b.op("aten.add_.Tensor", mutates=[reduced, gradient], cost_ns=1)
    b.op("aten.mm.default", reads=[reduced], creates=[other], cost_ns=1)
    b.op("aten.mm.default", reads=[norm, other], mutates=[gradient], cost_ns=1)
    trace = b.build({"model": "clipped"})
    for peers, may_go in ((trace.peers, False), (np.zeros(trace.n_ops, np.int64), pinning == Pinning.DECLARED)):
        program = lower(replace(trace, peers=peers), in_place=InPlace.RECOMPUTABLE, pinning=pinning, granule=512)
        assert bool(program.values[program.storage.tolist().index(norm), EVICTABLE]) == may_go


def test_what_was_gathered_goes_when_the_program_drops_it() -> None:
    trace = sharded(layers=3)
    schedule = replay(trace, "coop", "100%")
    runs = np.flatnonzero((schedule.action == Action.COMPUTE) & (schedule.step == 0))
    at = {int(schedule.op[i]): int(i) for i in runs}
    weights = trace.creates[0][0]
    gone = next(i for i, s in enumerate(schedule.storage) if s == weights and schedule.action[i] == Action.FREE)
    assert at[1] < gone < at[2]
    assert schedule.header["outcome"] == "ok"


@settings(max_examples=60, deadline=None)
@given(st.data(), policies(), dice(3))
def test_no_policy_runs_one_again(data: st.DataObject, policy: Policy, rolls: object) -> None:
    trace = data.draw(traces())
    trace = replace(trace, peers=np.where(np.arange(trace.n_ops) % 3 == 1, 2, 0))
    steps = 2 if repeatable(trace) else trace.n_steps
    schedule = replay(trace, policy, budget(trace, 512, rolls), steps=steps)
    again = schedule.op[schedule.action == Action.RECOMPUTE]
    assert not trace.peers[again].any()
    assert validate(schedule, trace) == []
