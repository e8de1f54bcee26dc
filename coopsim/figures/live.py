"""The bytes that are alive in a step without eviction, against GPU time."""

from typing import TYPE_CHECKING

from coopsim.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from coopsim.trace import Trace

GIB = 1 << 30


def draw(trace: "Trace", *, size: str = "column") -> "Figure":
    """What the trace holds at each time, all roles together, in GiB. size: `column` or `slide`."""
    from matplotlib.figure import Figure

    from coopsim.trace.measure import live_bytes

    s = style.size(size)
    with style.applied(size):
        figure = Figure(figsize=(s["map_width_in"], s["height_in"]), layout="constrained")
        ax = figure.add_subplot()
        starts_ms = (trace.cost_ns.cumsum() - trace.cost_ns) / 1e6
        ax.fill_between(starts_ms, live_bytes(trace) / GIB, step="post", color=style.roles()["activation"].color)
        ax.set(xlabel="GPU time (ms)", ylabel="bytes alive (GiB)", ylim=0, xlim=(0, starts_ms[-1]), title=trace.label)
    return figure
