"""The chain that simrd's uniform-linear experiment runs: n unit ops forward, n backward, each of one unit of memory."""

from coopsim.trace import Trace, TraceBuilder


def chain(n: int, *, releases: bool) -> Trace:
    """Forward values are released as the backward pass goes, if `releases`; at the end nothing is asked for again."""
    b = TraceBuilder()

    def op(*args: int) -> int:
        made = b.storage(1)
        b.op("unit", reads=args, creates=[made], cost_ns=1)
        return made

    forward: list[int] = []
    for _ in range(n):
        forward.append(op(*forward[-1:]))
    if releases:
        b.free(forward[-1])
    gradient = op()
    for i in range(n - 2, -1, -1):
        if releases:
            b.free(forward[i])
        before, gradient = gradient, op(*forward[max(i - 1, 0) : i], gradient)
        if releases:
            b.free(before)
    return b.build({"model": f"chain of {n}", "simrd": {"version": 1, "views": [], "kept": []}})
