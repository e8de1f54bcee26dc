"""Curves against the memory ratio: overhead, fragmentation rate, search. A point is a band of neighbouring budgets."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coopsim.errors import unknown
from coopsim.figures import output, style
from coopsim.figures.bands import Band, Series, bands, check, series
from coopsim.types import Outcome

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RATIO = "memory ratio (% of peak without eviction)"
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1.5, 1, 1.5)))
_Unfit = dict[Series, dict[str, list[float]]]  # curve, trace, memory ratios
_NONE_FITS, _SOME_FIT = "does not fit", "not all budgets of the band fit"
_SPREAD = "shade"
_SPREADS = {"range": "least to greatest of the band", "std": "mean ± standard deviation of the band"}
_SHADE = 0.18  #: how opaque it is


@dataclass(frozen=True)
class Quantity:
    """What a figure shows: the values of a table's rows, the axis that they are read from, and its scale."""

    axis: str
    short: str
    values: "Callable[[pd.DataFrame], pd.Series[float]]"
    log: bool = False
    note: str = ""  #: beside all panels


QUANTITIES = {
    "overhead": Quantity(
        "overhead (%)",
        "overhead",
        lambda df: 100 * (df["overhead"].astype("float64") - 1),
    ),
    "fragmentation": Quantity(
        "fragmentation rate (%)",
        "fragmentation rate",
        lambda df: 100 * df["fragmentation_rate"].astype("float64"),
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


def draw(df: "pd.DataFrame", what: str, *, size: str = "column", spread: str = "std") -> "Figure":
    """One quantity of a sweep's table against the memory ratio: a panel per trace, a curve per policy.

    what: `overhead`, `fragmentation` (request counted as used), `search` (blocks visited) or `search_time` (wall
    clock). size: `column`, `slide`, or `page`: small panels, four beside each other, with one label for all.
    A line is the mean over the neighbouring budgets that ran, its shade their `range` or their standard deviation,
    `std`, as in the tables. It ends where most do not run. A hollow marker: only some of them ran, with how many where
    there is room. A cross above the panel: none did. CoopsimError for a table or a word that it does not know.
    """
    if what not in QUANTITIES:
        raise unknown("figure", what, QUANTITIES)
    df = check(df)
    traces = list(dict.fromkeys(df["trace"]))
    columns = min(len(traces), 4 if len(traces) > 6 else 3)
    small = size == "page"
    with style.applied(size):
        unfit = _unfit(df)
        figure, axes = _panels(math.ceil(len(traces) / columns), columns, size, len(unfit))
        shown: set[str] = set()
        for k, ax in enumerate(axes):
            if k >= len(traces):
                ax.set_axis_off()
                continue
            shown |= _panel(ax, df, traces[k], what, spread, counts=not small)
            shown |= _crosses(ax, unfit, traces[k], style.policies(df["policy"]))
            ax.set_title(traces[k], pad=_above(unfit))
            if k % columns == 0 and not small:
                ax.set_ylabel(QUANTITIES[what].axis)
            if k + columns >= len(traces) and not small:
                ax.set_xlabel(_RATIO)
        note = "\n".join(filter(None, (output.of_table(df), QUANTITIES[what].note)))
        if small:  # the legend is above
            figure.supxlabel("\n".join(filter(None, (_RATIO, note))), fontsize=style.size(size)["font_pt"])
            figure.supylabel(QUANTITIES[what].axis.replace("\n", " "), fontsize=style.size(size)["font_pt"])
        elif note:
            figure.suptitle(note, fontsize=0.85 * style.size(size)["font_pt"], color=output.GREY)
        _legend(figure, df, shown, spread, above=small)
    return figure


def overview(df: "pd.DataFrame", *, size: str = "column", spread: str = "std") -> "Figure":
    """Overhead, fragmentation and search side by side, a row of panels per trace; the rest as in `draw`."""
    df = check(df)
    traces = list(dict.fromkeys(df["trace"]))
    whats = ("overhead", "fragmentation", "search")
    with style.applied(size):
        unfit = _unfit(df)
        figure, axes = _panels(len(traces), len(whats), size, len(unfit))
        shown: set[str] = set()
        for k, ax in enumerate(axes):
            trace, what = traces[k // len(whats)], whats[k % len(whats)]
            shown |= _panel(ax, df, trace, what, spread, counts=True)
            shown |= _crosses(ax, unfit, trace, style.policies(df["policy"]))
            ax.set_ylabel(QUANTITIES[what].axis)
            ax.set_title(f"{trace}: {QUANTITIES[what].short}", pad=_above(unfit))
            if k >= len(axes) - len(whats):
                ax.set_xlabel(_RATIO)
        if note := output.of_table(df):
            figure.suptitle(note, fontsize=0.85 * style.size(size)["font_pt"], color=output.GREY)
        _legend(figure, df, shown, spread)
    return figure


def _positive(values: "pd.Series[float]") -> "pd.Series[float]":
    """Zeros have no place on a logarithmic axis: where nothing is searched the curve has not begun."""
    return values.where(values > 0)


def _panels(rows: int, columns: int, size: str, crosses: int) -> "tuple[Figure, list[Axes]]":
    """An empty figure with a grid of panels, and room above each for that many rows of crosses."""
    from matplotlib.figure import Figure

    s = style.size(size)
    width = s["width_in"] * (1 if columns == 1 else 0.95 * columns)
    height = s["height_in"] + crosses * _row_pt() / 72
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False).ravel().tolist()


def _panel(ax: "Axes", df: "pd.DataFrame", trace: str, what: str, spread: str, *, counts: bool) -> set[str]:
    """Draw the curves of one trace; counts: with how many fit. Returns the special mark if it used it."""
    quantity = QUANTITIES[what]
    looks = style.policies(df["policy"])
    curves = series(df)
    dashes = _dashes(curves)
    shown: set[str] = set()
    drawn: dict[Series, list[Band]] = {}
    for name in _in_order(curves):
        rows = curves[name][curves[name]["trace"] == trace]
        if not rows.empty:
            drawn[name] = bands(rows, quantity.values(rows), spread)
    for name in reversed(drawn):  # the first in the legend comes on top
        shown |= _curve(ax, drawn[name], looks[name.policy], dashes[name], counts=counts)
    if quantity.log:
        ax.set_yscale("log")
    else:
        bottom, top = ax.get_ylim()
        ax.set_ylim(min(bottom, -0.04 * top), top)  # room for a marker at zero
    ax.grid(visible=True)
    ax.set_xlim(100 * df["band_center"].min() - 4, 100 * df["band_center"].max() + 4)
    ax.xaxis.set_major_locator(_locator())
    return shown


def _locator() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=8, steps=[1, 2, 5, 10])


def _curve(ax: "Axes", points: list[Band], look: style.Look, dashes: Any, *, counts: bool) -> set[str]:
    """Line, shade and markers; the line breaks where most budgets do not fit. counts: write how many fit if not all."""
    from matplotlib.patheffects import withStroke

    run: list[Band] = []
    shown = set()
    for p in [*points, None]:
        if p is not None and not math.isnan(p.mean) and 2 * p.fits >= p.points:
            run.append(p)
            continue
        if run:
            x = [100 * b.ratio for b in run]
            ax.fill_between(x, [b.low for b in run], [b.high for b in run], color=look.color, alpha=_SHADE, linewidth=0)
            ax.plot(x, [b.mean for b in run], color=look.color, linestyle=dashes)
            shown |= {_SPREAD} if len(run) > 1 and any(b.points > 1 for b in run) else set()
        run = []
    for p in points:
        if math.isnan(p.mean):
            continue
        some = p.fits < p.points
        face = "white" if some else look.color
        ax.plot(100 * p.ratio, p.mean, look.marker, color=look.color, markerfacecolor=face, zorder=3)
        if some:
            shown.add(_SOME_FIT)
        if some and counts:
            ax.annotate(
                f"{p.fits}/{p.points}",
                (100 * p.ratio, p.mean),
                xytext=(0.6, 0.5),
                textcoords="offset fontsize",
                color=look.color,
                fontsize="x-small",
                zorder=4,
                path_effects=[withStroke(linewidth=2, foreground="white")],
            )
    return shown


def _unfit(df: "pd.DataFrame") -> _Unfit:
    """Of each curve that breaks off anywhere, the memory ratios at which no budget fits, by trace."""
    curves = series(df)
    found: _Unfit = {}
    key: Any
    for name in _in_order(curves):
        for key, rows in curves[name].groupby(["trace", "band_center"], observed=True):
            if not (rows["outcome"] == Outcome.OK).any():
                found.setdefault(name, {}).setdefault(str(key[0]), []).append(float(key[1]))
    return found


def _row_pt() -> float:
    """How far rows of crosses are apart, in points."""
    import matplotlib as mpl

    return 1.35 * float(mpl.rcParams["lines.markersize"])


def _above(unfit: _Unfit) -> float:
    """How far a title is above its panel, in points."""
    return 4 + _row_pt() * len(unfit)


def _crosses(ax: "Axes", unfit: _Unfit, trace: str, looks: dict[str, style.Look]) -> set[str]:
    """Above the panel, a row a curve that breaks off: a cross where nothing fits. It has no overhead, so no height."""
    from matplotlib.transforms import ScaledTranslation

    figure: Any = ax.figure
    for k, (name, of) in enumerate(reversed(unfit.items())):
        up = ScaledTranslation(0, (k + 0.8) * _row_pt() / 72, figure.dpi_scale_trans)
        x = [100 * ratio for ratio in of.get(trace, [])]
        if not x:
            continue
        place = ax.get_xaxis_transform() + up
        look: Any = {"color": looks[name.policy].color, "markeredgewidth": 1.2, "transform": place, "clip_on": False}
        ax.plot(x, [1.0] * len(x), "x", **look)
    return {_NONE_FITS} if any(trace in of for of in unfit.values()) else set()


def _in_order(curves: "dict[Series, pd.DataFrame]") -> list[Series]:
    policies = style.order(s.policy for s in curves)
    return sorted(curves, key=lambda s: (policies.index(s.policy), s.variant))


def _dashes(curves: "dict[Series, pd.DataFrame]") -> dict[Series, Any]:
    """A line style for each curve: the same for the same variant."""
    variants = sorted({s.variant for s in curves})
    return {s: _DASHES[variants.index(s.variant) % len(_DASHES)] for s in curves}


def _legend(figure: "Figure", df: "pd.DataFrame", shown: set[str], spread: str, *, above: bool = False) -> None:
    """One legend for all panels, below or above them: the curves, the shade, and the special marks that occur."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    looks = style.policies(df["policy"])
    curves = series(df)
    handles: list[Any] = []
    for s, dashes in ((s, _dashes(curves)[s]) for s in _in_order(curves)):
        look = looks[s.policy]
        label = " · ".join(filter(None, (look.label, s.variant)))
        handles.append(Line2D([], [], color=look.color, marker=look.marker, linestyle=dashes, label=label))
    if _SPREAD in shown:
        handles.append(Patch(facecolor=output.GREY, alpha=_SHADE, linewidth=0, label=_SPREADS[spread]))
    for label, marker, face in ((_SOME_FIT, "o", "white"), (_NONE_FITS, "x", "black")):
        if label in shown:
            look_of_mark: Any = {"color": "#444444", "marker": marker, "markerfacecolor": face, "linestyle": "none"}
            handles.append(Line2D([], [], label=label, **look_of_mark))
    style.add_legend(figure, handles, "outside upper center" if above else "outside lower center")
