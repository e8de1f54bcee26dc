"""The picture of how overhead changes as steps follow one another in one memory: a panel a policy, a line a model."""

import math
from typing import TYPE_CHECKING, Any

from coopsim.study import tables
from coopsim.study.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POLICIES = ("dtr-oneflow", "dte-oneflow", "coop")
MOVES = 0.5  #: percentage points; models that move less are drawn in grey
APART = 0.36  #: points between two names
WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 0.2}


def draw(table: Any) -> "Figure":
    """From the replays of steps.toml: means of bands, less that of one step. Where none fits the line ends."""
    from matplotlib.figure import Figure

    found = tables.bands(table)
    looks = style.policies(POLICIES)
    with style.applied("page"):
        s = style.size("page")
        figure = Figure(figsize=(s["map_width_in"], 1.35 * s["height_in"]), layout="constrained")
        axes = figure.subplots(1, len(POLICIES), sharey=True)
        for ax, policy in zip(axes, POLICIES, strict=True):
            ends: list[tuple[float, int, str]] = []
            for trace, part in found[found.policy == policy].groupby("trace", sort=False):
                part = part.sort_values("steps")
                points = (100 * (part.overhead - part.overhead.iloc[0])).tolist()
                here = [k for k, value in enumerate(points) if value == value]
                moves = max((abs(points[k]) for k in here), default=0) >= MOVES
                steps = [part.steps.tolist()[k] for k in here]
                ax.plot(steps, [points[k] for k in here], marker="o", color=looks[policy].color if moves else "#BBBBBB")
                if moves:
                    ends.append((points[here[-1]], steps[-1], trace))
            _name(ax, sorted(ends))
            ax.set_title(looks[policy].label, loc="left")
            ax.set_xscale("log")
            ax.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
            ax.minorticks_off()
            ax.set_xlim(0.9, 75)
            ax.axhline(0, color="#999999", linewidth=0.6)
            ax.grid(visible=True, axis="y")
        axes[0].set_ylabel("points above one step")
        figure.supxlabel(f"steps in one memory of {found.band_center.iloc[0]:.0%} of the peak", fontsize=s["font_pt"])
    return figure


def _name(ax: "Axes", ends: list[tuple[float, int, str]]) -> None:
    """The models at the ends of their lines, from below, no two upon each other."""
    last = -math.inf
    for value, step, trace in ends:
        last = max(value, last + APART)
        ax.annotate(trace, (step, last), (4, 0), textcoords="offset points", va="center", bbox=WHITE)
