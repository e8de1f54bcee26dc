"""Bytes of a trace over time."""

from collections import Counter

from hypothesis import given

from coopsim.base.types import Role
from coopsim.trace import Trace
from coopsim.trace.measure import bytes_at_peak, live_bytes, live_bytes_by_role
from tests.strategies import traces


@given(traces())
def test_roles_add_up(trace: Trace) -> None:
    total, by_role = live_bytes(trace), live_bytes_by_role(trace)
    assert sum(by_role.values()).tolist() == total.tolist()
    op = int(total.argmax())
    held = Counter({str(Role.TEMPORARY): sum(trace.temporaries.rows()[op])})
    made = {s: at for at, created in enumerate(trace.creates.rows()) for s in created}
    gone = dict(zip(trace.freed.tolist(), trace.freed_after.tolist(), strict=True))
    for s in range(trace.n_storages):
        if made.get(s, -1) <= op <= gone.get(s, trace.n_ops):
            held[str(trace.role[s])] += int(trace.bytes[s])
    assert bytes_at_peak(trace) == {role: nbytes for role, nbytes in held.items() if nbytes}
