"""The picture of docs/policies.md: a panel a model, curves of the policies, the line of plain checkpointing."""

import math
from typing import TYPE_CHECKING, Any

from coopsim.study.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHECKPOINTING = "checkpointing"  #: stands among the policies in the table
POLICIES = ("dtr-oneflow", "dte-oneflow", "coop", "thrift", "foresight")
GIB = 1 << 30


def draw(table: Any) -> "Figure":
    """From expected/checkpointing.csv."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    looks = {name: style.policies(POLICIES)[name] for name in POLICIES}
    traces = list(dict.fromkeys(table.trace))
    with style.applied("column"):
        figure = Figure(figsize=(6.8, 2.0 * math.ceil(len(traces) / 2) + 0.5), layout="constrained")
        axes: list[Axes] = figure.subplots(math.ceil(len(traces) / 2), 2).ravel().tolist()
        for ax, trace in zip(axes, traces, strict=True):
            _panel(ax, table[table.trace == trace], looks)
            ax.set_title(trace)
        figure.supxlabel("memory (GiB)", fontsize=style.size("column")["font_pt"])
        figure.supylabel("overhead (%)", fontsize=style.size("column")["font_pt"])
        handles = [Line2D([], [], color=look.color, marker=look.marker, label=look.label) for look in looks.values()]
        handles.append(Line2D([], [], color="black", marker="*", markersize=8, label="plain checkpointing"))
        handles.append(Line2D([], [], color="#444444", linestyle=":", label="no schedule needs less"))
        hollow = {"color": "#444444", "marker": "o", "markerfacecolor": "white", "linestyle": "none"}
        handles.append(Line2D([], [], label="not all budgets of the band fit", **hollow))  # type: ignore[arg-type]
        figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


def _panel(ax: "Axes", table: Any, looks: dict[str, style.Look]) -> None:
    points = table[table.what == CHECKPOINTING]
    for name, look in looks.items():
        curve = table[(table.what == name) & table.blocks.isna()].sort_values("memory_bytes")
        x, y, spread = curve.memory_bytes / GIB, 100 * (curve.overhead - 1), 100 * curve.overhead_spread
        ax.fill_between(x, y - spread, y + spread, color=look.color, alpha=0.18, linewidth=0)
        ax.plot(x, y, color=look.color)
        for whole in (True, False):
            part = (curve.fits == curve.points) if whole else (curve.fits > 0) & (curve.fits < curve.points)
            face = look.color if whole else "white"
            ax.plot(x[part], y[part], look.marker, color=look.color, markerfacecolor=face, zorder=3)
    x = points.memory_bytes / GIB
    ax.plot(x, 100 * (points.overhead - 1), "-*", color="black", markersize=8, zorder=4)
    ax.axvline(points.floor_bytes.iloc[0] / GIB, color="#444444", linestyle=":")
    ax.set_xlim(0, 1.03 * x.max())
    ax.set_ylim(0, 60)
    ax.grid(visible=True)
