"""The bytes that are alive in a step without eviction, by role, against GPU time."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from coopsim.base.types import GIB
from coopsim.study.figures import output, style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from coopsim.trace import Trace


def draw(trace: "Trace", *, size: style.Size = "column", axes: "Sequence[Axes] | None" = None) -> "Figure":
    """What the trace holds at each time, in GiB: what stays below, activations above.

    size: `column`, `slide`, or width and height in inches. axes: one of a figure of one's own.
    """
    import numpy as np

    from coopsim.trace.measure import live_bytes_by_role

    s, looks = style.size(size), style.looks("role")
    alive = live_bytes_by_role(trace)
    roles = [role for role in looks if role in alive]
    ends_ms = np.append(0, trace.cost_ns.cumsum()) / 1e6
    with nullcontext() if axes else style.applied(size):
        if axes is None:
            axes = [style.figure(size, s["map_width_in"], 1.15 * s["height_in"]).add_subplot()]
        (ax,) = axes
        base = np.zeros(trace.n_ops + 1)
        for role in roles:
            top = base + np.append(alive[role], alive[role][-1]) / GIB
            ax.fill_between(ends_ms, base, top, step="post", color=looks[role].color, label=looks[role].label, lw=0)
            base = top
        ax.set(xlabel="GPU time (ms)", ylabel="bytes alive (GiB)", ylim=0, xlim=(0, ends_ms[-1]))
        title = f"{trace.label}: {base.max():.2f} GiB at the peak, without eviction"
        ax.set_title("\n".join(filter(None, (title, output.of_trace(trace)))), loc="left")
        handles, labels = ax.get_legend_handles_labels()
        figure: Any = ax.get_figure(root=True)
        figure.legend(handles[::-1], labels[::-1], loc="outside right center")
        style.finish(figure, size)
    return figure  # type: ignore[no-any-return]


def data(trace: "Trace") -> "pd.DataFrame":
    """What is drawn: a row per op, with the time at which it ends in ms, and the bytes alive by role."""
    import pandas as pd

    from coopsim.trace.measure import live_bytes_by_role

    return pd.DataFrame({"end_ms": trace.cost_ns.cumsum() / 1e6, **live_bytes_by_role(trace)})
