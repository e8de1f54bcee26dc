"""The fewest bytes of an iteration: a bound for every plan, and no plan is looked for below it."""

import pytest
from hypothesis import HealthCheck, given, settings

from coopsim.base.types import InPlace, Pinning, Role
from coopsim.cards.link import Link
from coopsim.simulate.planning import make as making
from coopsim.simulate.planning.lower import lower
from coopsim.simulate.planning.request import Copying, copies
from coopsim.simulate.planning.selection import least_bytes
from coopsim.simulate.replay import replay
from coopsim.trace import Trace, TraceBuilder
from tests.strategies import budget, dice, repeating

FAST = Link("fast", 1_000_000, 700_000, 10)
BOTH = "foresight-offline:lose=either"


def updated() -> Trace:
    """A parameter (4 units of 512 B), then a (2), b (4) from a, and an update of the parameter with b."""
    t = TraceBuilder()
    p = t.storage(2048, Role.PARAMETER, alive_at_start=True)
    a, b = t.storage(1024), t.storage(2048)
    t.op("a", reads=[p], creates=[a], cost_ns=10, temporaries=[512])
    t.op("b", reads=[a], creates=[b], cost_ns=10)
    t.free(a)
    t.op("update", reads=[b], mutates=[p], cost_ns=10)
    t.free(b)
    t.becomes(p, p)
    return t.build({})


@pytest.mark.parametrize(("state_too", "units"), [(None, 10), (False, 10), (True, 8)])
def test_by_hand(state_too: bool | None, units: int) -> None:
    """b's op needs a, b, and the parameter beside it; unless that may be away, then the update needs most."""
    trace = updated()
    program = lower(trace, in_place=InPlace.RECOMPUTABLE, pinning=Pinning.SOUND, granule=512)
    copying = None
    if state_too is not None:
        rows = copies(program, trace, FAST, state_too=state_too)
        copying = Copying(rows, rows[:, 0], 1, 1, 1 << 40, 0, 0)
    assert least_bytes(program, copying) == units * 512


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(repeating(), dice(1))
def test_no_plan_needs_less(trace: Trace, roll) -> None:
    nbytes = budget(trace, 512, roll)
    fast = {"link": FAST}
    for policy, how in (("foresight-offline", {}), (BOTH, fast), (f"{BOTH},offload_state=yes", fast)):
        found: list[tuple[int, making.ResidencyPlan | None]] = []
        with pytest.MonkeyPatch.context() as patch:
            make = making.make
            bounds: list[int] = []

            def least(*arguments, bounds=bounds):
                bounds.append(least_bytes(*arguments))
                return 0  # the search goes on below it, too

            def planned(*arguments, found=found, bounds=bounds, make=make):
                plan = make(*arguments)
                found.append((bounds[-1], plan))
                return plan

            patch.setattr(making, "least_bytes", least)
            patch.setattr("coopsim.simulate.replay.planned_run.make", planned)
            replay(trace, policy, nbytes, steps=2, **how)
        assert all(plan is None or plan.peak >= low for low, plan in found)


def test_no_plan_is_looked_for_where_none_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_, **__):
        raise AssertionError("it fits nowhere")

    monkeypatch.setattr(making, "Draft", search)
    for how in ({}, {"link": FAST}):
        policy = BOTH if how else "foresight-offline"
        assert replay(updated(), policy, 9 * 512, steps=1, **how).header["outcome"] == "oom"
    with pytest.raises(AssertionError, match="fits nowhere"):
        replay(updated(), BOTH, 10 * 512, steps=1, link=FAST)
