"""The picture of what policies recompute: a panel a model, a bar a policy, in parts by kind of op."""

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from coopsim.study.figures import style
from experiments.paper.recomputed import BOUNDS, KINDS, POLICIES, RATIO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2
COLORS = ("#0072B2", "#E69F00", "#009E73", "#BDBDBD")
EDGE = "#000000"


def draw(table: Any) -> "Figure":
    """From expected/recomputed.csv, and the lower bounds of expected/bounds.csv."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    bounds = pd.read_csv(BOUNDS)
    bounds = bounds[bounds.memory_ratio == RATIO].set_index("trace").lower_bound
    traces = list(dict.fromkeys(table.trace))
    rows = math.ceil(len(traces) / COLUMNS)
    with style.applied("page"):
        s = style.size("page")
        line = s["font_pt"] / 72
        height = rows * (1.7 * len(POLICIES) + 3.2) * line + 5 * line
        figure = Figure(figsize=(s["map_width_in"], height), layout="constrained")
        axes: list[Axes] = figure.subplots(rows, COLUMNS, sharey=True).ravel().tolist()
        for ax in axes[len(traces) :]:
            ax.set_axis_off()
        for trace, ax in zip(traces, axes, strict=False):
            _panel(ax, table[table.trace == trace], 100 * (bounds[trace] - 1))
            ax.set_title(trace, loc="left")
        across = (
            "recomputation (% of a step) in the third iteration, of replays that fit for ten steps in half of the peak"
        )
        figure.supxlabel(across, fontsize=s["font_pt"])
        handles: list[Any] = [Patch(color=color, label=kind) for color, kind in zip(COLORS, KINDS, strict=True)]
        handles.append(Line2D([], [], color=EDGE, linestyle="--", label="no schedule is below"))
        handles.append(Line2D([], [], color=EDGE, linestyle="", marker="x", label="does not fit"))
        figure.legend(handles=handles, loc="outside upper center", ncols=2)
    return figure


def _panel(ax: "Axes", table: Any, bound: float) -> None:
    shares = table.pivot_table(index="policy", columns="kind", values="share")
    for row, policy in enumerate(POLICIES):
        if policy not in shares.index:
            ax.plot(0.02, row, "x", color=EDGE, transform=ax.get_yaxis_transform(), clip_on=False)
            continue
        left = 0.0
        for kind, color in zip(KINDS, COLORS, strict=True):
            width = 100 * shares.loc[policy, kind]
            ax.barh(row, width, 0.75, left, color=color, linewidth=0)
            left += width
        if not left:
            ax.annotate("none", (0, row), (3, 0), textcoords="offset points", va="center")
    ax.axvline(bound, color=EDGE, linestyle="--", linewidth=0.8)
    looks = style.policies(POLICIES)
    ax.set_yticks(range(len(POLICIES)), [looks[policy].label for policy in POLICIES])
    ax.set_ylim(len(POLICIES) - 0.4, -0.6)
    ax.set_xlim(0, None)
    ax.grid(visible=True, axis="x")
