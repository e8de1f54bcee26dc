"""Curves against the memory ratio: overhead, fragmentation rate, search. A point is a band of neighbouring budgets."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coopsim.base.errors import unknown
from coopsim.base.types import CoopsimError
from coopsim.study.figures import output, style
from coopsim.study.figures.bands import check
from coopsim.study.figures.choice import ALL, PolicyChoice
from coopsim.study.figures.curves import Curves, write_counts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RATIO = "memory ratio (% of peak without eviction)"
_OVERVIEW = ("overhead", "fragmentation", "search")
_FEW = 3  #: traces, to each of which an overview gives a row


@dataclass(frozen=True)
class Quantity:
    """What a figure shows: the values of a table's rows, the axis that they are read from, and its scale."""

    axis: str
    short: str
    values: "Callable[[pd.DataFrame], pd.Series[float]]"
    log: bool = False
    note: str = ""  #: beside all panels


QUANTITIES = {
    "overhead": Quantity("overhead (%)", "overhead", lambda df: 100 * (df["overhead"].astype("float64") - 1)),
    "fragmentation": Quantity(
        "fragmentation rate (%)", "fragmentation rate", lambda df: 100 * df["fragmentation_rate"].astype("float64")
    ),
    "search": Quantity(
        "blocks visited per step",
        "search",
        lambda df: _positive(df["search_visits"].astype("float64") / df["steps"]),
        log=True,
    ),
    "search_time": Quantity(
        "search time per step (ms)",
        "search time",
        lambda df: _positive(df["search_ns"].astype("float64") / df["steps"] / 1e6),
        log=True,
        note="wall time of the machine that replayed, with its noise;\n"
        "compare blocks visited, not this, between machines",
    ),
}


def draw(
    df: "pd.DataFrame",
    what: str,
    *,
    size: style.Size = "column",
    choice: PolicyChoice = ALL,
    axes: "Sequence[Axes] | None" = None,
) -> "Figure":
    """One quantity of a sweep's table against the memory ratio: a panel per trace, a curve per policy.

    what: `overhead`, `fragmentation` (request counted as used), `search` (blocks visited) or `search_time` (wall
    clock). size: `column`, `slide`, `page`: small panels, four beside each other, with one label for all; or width and
    height of the figure in inches. axes: of a figure of one's own, one per trace, which is then left as it is.
    A line is the mean over the neighbouring budgets that ran, its shade their standard deviation, as in the tables. It
    ends where most do not run. A hollow marker: only some of them ran, with how many where there is room. A cross above
    the panel: none did. CoopsimError for a table or a word that it does not know.
    """
    if what not in QUANTITIES:
        raise unknown("figure", what, QUANTITIES)
    quantity = QUANTITIES[what]
    curves = Curves(check(df), choice)
    traces = curves.traces
    if axes is not None:
        return _into(axes, curves, quantity)
    columns = min(len(traces), 4 if len(traces) > 6 else 3)
    with style.applied(size):
        whole = "whole_width_in" in style.size(size)
        small = size == "page" or (whole and len(traces) > 1)
        figure, panels = _panels(math.ceil(len(traces) / columns), columns, size, curves.crosses_pt)
        for k, ax in enumerate(panels):
            if k >= len(traces):
                ax.set_axis_off()
                continue
            curves.draw(ax, traces[k], quantity.values, log=quantity.log, ticks=5 if whole and columns > 2 else 8)
            ax.set_title(traces[k], pad=curves.title_pt)
            if k % columns == 0 and not small:
                ax.set_ylabel(quantity.axis)
            if k + columns >= len(traces) and not small:
                ax.set_xlabel(_RATIO)
        _ends(figure, curves, size, quantity.note, shared=quantity.axis if small else "", counted=size != "page")
    return figure


def overview(df: "pd.DataFrame", *, size: style.Size = "column", choice: PolicyChoice = ALL) -> "Figure":
    """Overhead, fragmentation and search: a row of panels per trace; of more than three traces, small panels in a grid,
    a column per trace and four of them beside each other. The rest as in `draw`.
    """
    curves = Curves(check(df), choice)
    few = len(curves.traces) <= _FEW
    size = "page" if size == "column" and not few else size
    across = len(_OVERVIEW) if few else 4
    with style.applied(size):
        rows = len(curves.traces) if few else len(_OVERVIEW) * math.ceil(len(curves.traces) / across)
        figure, panels = _panels(rows, across, size, curves.crosses_pt)
        for k, ax in enumerate(panels):
            row, column = divmod(k, across)
            t, q = (row, column) if few else (row // len(_OVERVIEW) * across + column, row % len(_OVERVIEW))
            if t >= len(curves.traces):
                ax.set_axis_off()
                continue
            quantity = QUANTITIES[_OVERVIEW[q]]
            curves.draw(ax, curves.traces[t], quantity.values, log=quantity.log, ticks=8 if few else 5)
            if few:
                ax.set_ylabel(quantity.axis)
                ax.set_title(f"{curves.traces[t]}: {quantity.short}", pad=curves.title_pt)
            else:
                ax.set_title(curves.traces[t] if q == 0 else "", pad=curves.title_pt)
                ax.set_ylabel(quantity.axis.replace(" per", "\nper").replace(" rate", "\nrate") if column == 0 else "")
            if few and t == len(curves.traces) - 1 and "whole_width_in" not in style.size(size):
                ax.set_xlabel(_RATIO)
        shared = " " if not few or "whole_width_in" in style.size(size) else ""
        _ends(figure, curves, size, "", shared=shared, counted=few)
    return figure


def _into(axes: "Sequence[Axes]", curves: Curves, quantity: Quantity) -> "Figure":
    """The same in axes of somebody's own, with their settings; the legend goes into the first."""
    if len(axes) != len(curves.traces):
        raise CoopsimError(f"{len(axes)} axes are given for a panel per trace: {', '.join(curves.traces)}")
    for ax, trace in zip(axes, curves.traces, strict=True):
        curves.draw(ax, trace, quantity.values, log=quantity.log)
        ax.set_xlabel(_RATIO)
        ax.set_ylabel(quantity.axis)
        if len(axes) > 1:
            ax.set_title(trace, pad=curves.title_pt)
    axes[0].legend(handles=curves.handles())
    figure: Any = axes[0].get_figure(root=True)
    figure.draw_without_rendering()
    write_counts(figure, curves.counts)
    return figure  # type: ignore[no-any-return]


def _ends(figure: "Figure", curves: Curves, size: style.Size, more: str, *, shared: str, counted: bool) -> None:
    """What stands around the panels: with `shared`, one label for all of an axis, and what they share below; the
    legend; and how many budgets fit, where there is room."""
    note = "\n".join(filter(None, (output.of_table(curves.table), more)))
    font = style.size(size)["font_pt"]
    if shared:  # the legend is above
        figure.supxlabel("\n".join(filter(None, (_RATIO, note))), fontsize=font)
        if shared.strip():
            figure.supylabel(shared.replace("\n", " "), fontsize=font)
    elif note:
        figure.suptitle(note, fontsize=0.85 * font, color=output.GREY)
    place = "outside upper center" if shared else "outside lower center"
    style.add_legend(figure, curves.handles(), place, grow="whole_width_in" not in style.size(size))
    style.finish(figure, size)
    if counted:
        write_counts(figure, curves.counts)


def _positive(values: "pd.Series[float]") -> "pd.Series[float]":
    """Zeros have no place on a logarithmic axis: where nothing is searched the curve has not begun."""
    return values.where(values > 0)


def _panels(rows: int, columns: int, size: style.Size, crosses_pt: float) -> "tuple[Figure, list[Axes]]":
    """An empty figure with a grid of panels, and room above each for rows of crosses."""
    s = style.size(size)
    width = s["width_in"] * (1 if columns == 1 else 0.95 * columns)
    figure = style.figure(size, width, (s["height_in"] + crosses_pt / 72) * rows)
    return figure, figure.subplots(rows, columns, squeeze=False).ravel().tolist()
