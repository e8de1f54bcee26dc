"""Bytes of a trace over time."""

from hypothesis import given

from coopsim.trace import Trace
from coopsim.trace.measure import bytes_at_peak, live_bytes, live_bytes_by_role
from tests.strategies import traces


@given(traces())
def test_roles_add_up(trace: Trace) -> None:
    total, by_role = live_bytes(trace), live_bytes_by_role(trace)
    assert sum(by_role.values()).tolist() == total.tolist()
    op = int(total.argmax())
    assert {role: int(alive[op]) for role, alive in by_role.items() if alive[op]} == bytes_at_peak(trace)
