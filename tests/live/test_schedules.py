"""The cost of a schedule is that of a step that follows it."""

import pytest

from coopsim.base.types import MIB, Action, Role
from coopsim.cards.link import Link
from coopsim.live.host import COLD, Hosting
from coopsim.live.plan import HOLD
from coopsim.live.schedules import Search
from coopsim.live.signatures import Candidate
from coopsim.trace import Trace
from coopsim.trace.build import TraceBuilder


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
    found = Search(trace, "foresight-offline", 16 * MIB).leaving(0)
    assert isinstance(found, Candidate)
    assert [row[2] for row in found.schedule.rows() if row[0] == Action.RECOMPUTE] == [0]
    assert found.cost == pytest.approx(overhead)


def _step(scale: int) -> Trace:
    """A step of 11 ms, with a value that takes 3 to make, all times `scale` / 10."""
    build = TraceBuilder()
    data = build.storage(MIB, Role.INPUT, alive_at_start=True)
    value, large, last = (build.storage(n * MIB, Role.ACTIVATION, alive_at_start=False) for n in (8, 12, 1))
    build.op("aten.exp.default", reads=[data], creates=[value], cost_ns=300_000 * scale)
    build.op("aten.cos.default", reads=[data], creates=[large], cost_ns=700_000 * scale)
    build.free(large)
    build.op("aten.sum.default", reads=[value], creates=[last], cost_ns=100_000 * scale)
    return build.build({"model": "held", "cost_source": "synthetic"})


def _copies_or_runs_again(scale: int, link: Link | str, ops: int) -> int:
    """Which of both a plan does for the value."""
    trace = _step(scale)
    option = link if isinstance(link, str) else ""
    with pytest.MonkeyPatch.context() as patch:
        if isinstance(link, Link):
            patch.setattr("coopsim.cards.link.find", lambda *_: link)
        found = Search(trace, "foresight-offline", 16 * MIB, 0, Hosting(option), ops).leaving(0)
    assert isinstance(found, Candidate)
    (action,) = {row[0] for row in found.schedule.rows()} & {Action.OFFLOAD, Action.RECOMPUTE}
    return action


@pytest.mark.parametrize(("ops", "action"), [(0, Action.OFFLOAD), (10, Action.OFFLOAD), (10_000, Action.RECOMPUTE)])
def test_copies_that_the_host_would_issue_late_are_left(ops: int, action: Action) -> None:
    """Copies cost the GPU less than running an op again, and the host more: that counts if steps wait for the host."""
    assert _copies_or_runs_again(10, "pcie5-x16", ops) == action


def test_a_slow_link_or_a_slow_host_is_not_used() -> None:
    """A step of 2.2 ms; a copy of 8 MiB takes 0.15 on a fast link and 8 on a slow one."""
    fast, slow = 55_700, 1_000
    assert _copies_or_runs_again(2, Link("fast", fast, fast // 2), 10) == Action.OFFLOAD
    assert _copies_or_runs_again(2, Link("slow", slow, slow // 2), 10) == Action.RECOMPUTE
    slow_host = Link("its host takes 1 ms per copy", fast, fast // 2, host_ns=round(1e6 / COLD))
    assert _copies_or_runs_again(2, slow_host, 10) == Action.RECOMPUTE
    assert _copies_or_runs_again(10, slow_host, 10) == Action.OFFLOAD  # there the host is ahead all the same
