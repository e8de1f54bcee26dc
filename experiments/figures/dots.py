"""Dots in rows: a quantity of several policies (or allocators) side by side, a row a case, a panel a group of cases."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from coopsim.base.types import CoopsimError
from coopsim.study.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SOME_FIT, _NONE_FITS = "not all budgets of the band fit", "does not fit"


class Dot(NamedTuple):
    """One value. NaN: there is none, as the case does not fit. `low` to `high`: a line through the dot."""

    panel: str
    row: str
    series: str
    value: float
    low: float = math.nan
    high: float = math.nan
    part: bool = False  #: of several budgets only some fit: a hollow dot


def draw(
    dots: Sequence[Dot],
    axis: str,
    looks: Mapping[str, style.Look],
    *,
    columns: int = 1,
    one_scale: bool = False,
    limit: float | None = None,
    size: str = "column",
) -> "Figure":
    """Rows and panels in the order in which the dots name them; series in the order of `looks`.

    axis: what the values are, with the unit. looks: of each series; those without a dot are left out. columns: panels
    beside each other. one_scale: the same for all panels. limit: the end of the scale; a value beyond it is written
    there, with an arrow. Scales begin at zero, or at the least value if that is negative. CoopsimError if there is no
    dot, or a series without a look.
    """
    if not dots or not all(d.series in looks for d in dots):
        raise CoopsimError("no dots to draw" if not dots else "a series of dots has no look")
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys(d.panel for d in dots))
    series = [name for name in looks if any(d.series == name for d in dots)]
    of = {panel: [d for d in dots if d.panel == panel] for panel in panels}
    most = max(len({d.row for d in of[panel]}) for panel in panels)
    rows = math.ceil(len(panels) / columns)
    with style.applied(size):
        s = style.size(size)
        row = max(1.5, 0.75 * len(series)) * s["font_pt"] / 72
        width = s["width_in"] if columns == 1 else s["map_width_in"]
        figure = Figure(figsize=(width, rows * (row * most + 3.2 * s["font_pt"] / 72) + 0.4), layout="constrained")
        axes: Any = figure.subplots(rows, columns, squeeze=False, sharex=one_scale).ravel().tolist()
        shown: set[str] = set()
        for k, ax in enumerate(axes):
            if k >= len(panels):
                ax.set_axis_off()
                continue
            shown |= _panel(ax, of[panels[k]], {name: looks[name] for name in series}, limit)
            ax.set_title(panels[k], loc="left")
            if k % columns and _rows(of[panels[k]]) == _rows(of[panels[k - k % columns]]):
                ax.set_yticklabels([])
        for ax in axes[: len(panels)]:  # when all is drawn, as setting one end stops what finds the other
            ax.set_xlim(left=min([0.0, *(d.value for d in dots if not math.isnan(d.value))]), right=limit)
        figure.supxlabel(axis, fontsize=s["font_pt"])
        _legend(figure, [looks[name] for name in series], shown)
    return figure


def _rows(dots: Sequence[Dot]) -> list[str]:
    return list(dict.fromkeys(d.row for d in dots))


def _panel(ax: "Axes", dots: Sequence[Dot], looks: Mapping[str, style.Look], limit: float | None) -> set[str]:
    """One panel. Returns which of the two special marks it used."""
    from matplotlib.ticker import MaxNLocator

    names, series = _rows(dots), list(looks)
    shown: set[str] = set()
    for d in dots:
        y = names.index(d.row) + 0.8 * ((series.index(d.series) + 0.5) / len(series) - 0.5)
        look = looks[d.series]
        if math.isnan(d.value):
            ax.plot(1.0, y, "x", color=look.color, transform=ax.get_yaxis_transform(), clip_on=False, markeredgewidth=1)
            shown.add(_NONE_FITS)
            continue
        if limit is not None and d.value > limit:
            arrow = {"arrowstyle": "->", "color": look.color, "shrinkA": 0, "shrinkB": 0}
            ax.annotate(
                f"{d.value:.0f}",
                (limit, y),
                xytext=(-9, 0),
                textcoords="offset points",
                ha="right",
                va="center_baseline",
                color=look.color,
                fontsize="xx-small",
                arrowprops=arrow,
            )
            continue
        if not math.isnan(d.low):
            ax.plot([d.low, d.high], [y, y], color=look.color, alpha=0.55, solid_capstyle="butt")
        face = "white" if d.part else look.color
        ax.plot(d.value, y, look.marker, color=look.color, markerfacecolor=face, clip_on=False, zorder=3)
        if d.part:
            shown.add(_SOME_FIT)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=True, axis="x")
    for k in range(1, len(names)):
        ax.axhline(k - 0.5, color="#E4E4E4", linewidth=0.5)
    return shown


def _legend(figure: "Figure", looks: Sequence[style.Look], shown: set[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=k.color, marker=k.marker, linestyle="none", label=k.label) for k in looks]
    for label, marker, face in ((_SOME_FIT, "o", "white"), (_NONE_FITS, "x", "#444444")):
        if label in shown:
            handles.append(
                Line2D([], [], label=label, marker=marker, color="#444444", markerfacecolor=face, linestyle="none")
            )
    style.add_legend(figure, handles, "outside upper center", handletextpad=0.2)
