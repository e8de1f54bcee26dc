"""Traces made by hand."""

from coopsim.base.types import Role
from coopsim.trace import Trace, TraceBuilder


def two(*, hides: int = 0) -> Trace:
    """p (cost 7) and q (3), 10 B each, a wide op beside which there is room for one in 31 B, then an op on both.

    hides: the cost of an op between these two.
    """
    t = TraceBuilder()
    x = t.storage(1, Role.INPUT, alive_at_start=True)
    p, q, wide, end = t.storage(10), t.storage(10), t.storage(20), t.storage(1)
    t.op("p", reads=[x], creates=[p], cost_ns=7)
    t.op("q", reads=[x], creates=[q], cost_ns=3)
    t.op("wide", reads=[x], creates=[wide], cost_ns=100)
    t.free(wide)
    if hides:
        t.op("hides", reads=[x], cost_ns=hides)
    t.op("end", reads=[p, q], creates=[end], cost_ns=1)
    for s in (p, q, end):
        t.free(s)
    return t.build({})
