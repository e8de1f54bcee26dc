"""The cost of a schedule is that of a step that follows it."""

import pytest

from coopsim.live import schedules
from coopsim.live.host.hosting import Hosting
from coopsim.live.plan import HOLD
from coopsim.trace.build import TraceBuilder
from coopsim.types import MIB, Action, Role


@pytest.mark.parametrize(("has", "overhead"), [(False, 1.0), (True, 1.3)])
def test_what_is_made_again_after_the_last_op_costs_time_only_if_the_program_has_it_at_the_end(
    has: bool,
    overhead: float,
) -> None:
    build = TraceBuilder()
    data = build.storage(MIB, Role.INPUT, alive_at_start=True)
    value, large = (build.storage(n * MIB, Role.ACTIVATION, alive_at_start=False) for n in (8, 12))
    build.op("aten.exp.default", reads=[data], creates=[value], cost_ns=3_000_000)
    build.op("aten.cos.default", reads=[data], creates=[large], cost_ns=7_000_000)
    build.free(large)
    build.op(HOLD, reads=[] if has else [value], cost_ns=0)
    if not has:
        build.free(value)
    build.op(HOLD, reads=[value] if has else [], cost_ns=0)
    trace = build.build({"model": "held", "cost_source": "synthetic"})
    schedule = schedules.find(trace, "foresight-offline", 16 * MIB)
    assert [row[2] for row in schedule.rows() if row[0] == Action.RECOMPUTE] == [0]
    assert schedule.overhead == pytest.approx(overhead)


@pytest.mark.parametrize(("ops", "action"), [(0, Action.OFFLOAD), (10, Action.OFFLOAD), (10_000, Action.RECOMPUTE)])
def test_copies_that_the_host_would_issue_late_are_left(ops: int, action: Action) -> None:
    """Copies cost the GPU less than running an op again, and the host more: that counts if steps wait for the host."""
    build = TraceBuilder()
    data = build.storage(MIB, Role.INPUT, alive_at_start=True)
    value, large, last = (build.storage(n * MIB, Role.ACTIVATION, alive_at_start=False) for n in (8, 12, 1))
    build.op("aten.exp.default", reads=[data], creates=[value], cost_ns=3_000_000)
    build.op("aten.cos.default", reads=[data], creates=[large], cost_ns=7_000_000)
    build.free(large)
    build.op("aten.sum.default", reads=[value], creates=[last], cost_ns=1_000_000)
    trace = build.build({"model": "held", "cost_source": "synthetic"})
    schedule = schedules.find(trace, "foresight-offline", 16 * MIB, Hosting("pcie5-x16"), ops)
    assert {row[0] for row in schedule.rows()} & {Action.OFFLOAD, Action.RECOMPUTE} == {action}
