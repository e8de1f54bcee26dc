"""A feasibility map: budgets across, one row per policy; colour is overhead where it fits, grey where it does not."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from coopsim.base.types import CoopsimError, Outcome
from coopsim.study.figures import output, style
from coopsim.study.figures.bands import Series, check, series
from coopsim.study.figures.choice import ALL, PolicyChoice
from coopsim.study.grouping import grouping
from coopsim.study.tables import Tried, feasibility

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RATIO = "budget (% of peak without eviction)"
_OVERHEAD = "overhead (%)"
_SAFE = "smallest\nsafe"
_TICKS = (1, 1.1, 1.2, 1.5, 2, 3, 5, 7, 10, 20, 50, 100)
_ROW = 0.84  # of the distance between two rows


def draw(
    df: "pd.DataFrame", *, size: style.Size = "column", choice: PolicyChoice = ALL, axes: "Sequence[Axes] | None" = None
) -> "Figure":
    """A map's table as a picture: a panel per trace, a row per policy (and allocator or option, if there are several).

    A cell reaches half way to the budgets beside it. A triangle marks the smallest budget from which all larger ones
    fit, and stands in figures at the right. size: `column`, `slide`, or width and height in inches. axes: of a figure
    of one's own, one per trace. CoopsimError for a table that is no sweep's.
    """
    found = grouping(choice.rows(check(df)))
    table = found.table
    traces = list(dict.fromkeys(table["trace"]))
    curves = series(found)
    order = choice.names(df["policy"], list(dict.fromkeys(df["policy"])))  # as given, as in the table
    names = sorted(curves, key=lambda s: order.index(s.policy))
    looks = choice.looks(df["policy"])
    if axes is not None and len(axes) != len(traces):
        raise CoopsimError(f"{len(axes)} axes are given for a panel per trace: {', '.join(traces)}")
    with nullcontext() if axes else style.applied(size):
        s = style.size(size)
        row = 2.4 * s["font_pt"] / 72
        high = row * (len(names) * len(traces) + 1.9 * len(traces) + 4.2)
        if axes is None:
            drawn = style.figure(size, s["width_in"] * 1.15, high)
            axes = drawn.subplots(len(traces), 1, squeeze=False, sharex=True).ravel().tolist()
        figure: Any = axes[0].get_figure(root=True)
        colors = _colors(table)
        for ax, trace in zip(axes, traces, strict=True):
            rows = {name: curves[name][curves[name]["trace"] == trace] for name in names}
            _panel(ax, rows, colors, looks)
            unit = _bytes_axis(ax, table[table["trace"] == trace])
            ax.set_title(f"{trace}, budget in {unit}", loc="left")
        top = axes[0]
        place: Any = {"xy": (1.02, 1.0), "xycoords": "axes fraction", "xytext": (0, 1.5 * s["font_pt"])}
        top.annotate(_SAFE, **place, textcoords="offset points", va="bottom", linespacing=0.95, fontsize="small")
        axes[-1].set_xlabel("\n".join(filter(None, (_RATIO, output.of_table(table)))))
        _key(figure, axes, table, colors)
        style.finish(figure, size)
    return figure  # type: ignore[no-any-return]


def _colors(df: "pd.DataFrame") -> Any:
    """From an overhead to a colour: by its logarithm, light where it is least."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    most = df.loc[df["outcome"] == Outcome.OK, "overhead"].max()
    most = 1.5 if math.isnan(most) else max(1.5, float(most))
    return ScalarMappable(LogNorm(1, most), colormaps["viridis_r"])


def _bytes_axis(ax: "Axes", rows: "pd.DataFrame") -> str:
    """The budgets in bytes above a panel, as each trace has a peak of its own; gives their unit."""
    peak = float((rows["budget_bytes"] / rows["memory_ratio"]).median())
    unit, name = next(((1 << p, n) for p, n in ((30, "GiB"), (20, "MiB")) if peak >= 1 << p), (1 << 10, "KiB"))
    scale = peak / 100 / unit

    def to_bytes(percent: Any) -> Any:
        return percent * scale

    def to_percent(nbytes: Any) -> Any:
        return nbytes / scale

    above = ax.secondary_xaxis("top", functions=(to_bytes, to_percent))
    above.tick_params(axis="x", pad=1)
    return name


def _panel(ax: "Axes", rows: "dict[Series, pd.DataFrame]", colors: Any, looks: dict[str, style.Look]) -> None:
    for k, (_, group) in enumerate(rows.items()):
        if len(group):
            _row(ax, len(rows) - 1 - k, group.sort_values("memory_ratio"), colors)
    ax.set_yticks(
        range(len(rows)),
        [" · ".join(filter(None, (looks[name.policy].label, name.variant))) for name in reversed(rows)],
    )
    ax.set_ylim(-0.5, len(rows) - 0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _row(ax: "Axes", y: int, group: "pd.DataFrame", colors: Any) -> None:
    """The cells of one policy, and its smallest safe budget."""
    tried = [
        Tried(*values)
        for values in zip(*(group[c].tolist() for c in ("budget_bytes", "memory_ratio", "outcome")), strict=True)
    ]
    x = [100 * t.memory_ratio for t in tried]
    between = [(a + b) / 2 for a, b in pairwise(x)] or [x[0] + 0.5]
    edges = [2 * x[0] - between[0], *between, 2 * x[-1] - between[-1]][: len(x) + 1]
    cells = [(t, o, a, b) for t, o, (a, b) in zip(tried, group["overhead"].tolist(), pairwise(edges), strict=True)]
    low = y - _ROW / 2
    fits = [(overhead, a, b) for t, overhead, a, b in cells if t.outcome == Outcome.OK]
    ax.broken_barh(
        [(a, b - a) for _, a, b in fits],
        (low, _ROW),
        facecolors=[colors.to_rgba(overhead) for overhead, _, _ in fits],
        edgecolors="face",
        linewidth=0.2,  # or hairlines of white show between neighbours
    )
    for outcome, run in groupby((c for c in cells if c[0].outcome != Outcome.OK), lambda c: c[0].outcome):
        spans = _joined([(a, b - a) for _, _, a, b in run])
        ax.broken_barh([_visible(span, x[-1] - x[0]) for span in spans], (low, _ROW), **_failed(outcome))
    found = feasibility(tried)
    ax.text(
        1.02,
        y,
        f"{found.safe.memory_ratio:.2%}" if found.safe else found.no_safe,
        transform=ax.get_yaxis_transform(),
        va="center",
    )
    if found.safe:
        ax.plot(100 * found.safe.memory_ratio, y + _ROW / 2, **_safe_mark(), clip_on=False, zorder=4)


def _joined(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spans (start, width) that touch, as one: a hatch goes through."""
    joined: list[tuple[float, float]] = []
    for start, width in spans:
        if joined and math.isclose(sum(joined[-1]), start):
            joined[-1] = joined[-1][0], start + width - joined[-1][0]
        else:
            joined.append((start, width))
    return joined


def _visible(span: tuple[float, float], whole: float) -> tuple[float, float]:
    """The span (start, width), no narrower than can be seen: a hole must not vanish."""
    start, width = span
    wider = max(width, whole / 250)
    return start - (wider - width) / 2, wider


def _safe_mark() -> dict[str, Any]:
    return {"marker": "v", "color": "black", "markeredgecolor": "white", "markeredgewidth": 0.5, "linestyle": "none"}


def _failed(outcome: str) -> dict[str, Any]:
    look = style.looks("outcome")[outcome]
    return {"facecolor": look.color, "hatch": look.marker or None, "edgecolor": "#6E6E6E", "linewidth": 0}


def _key(figure: "Figure", axes: "Sequence[Axes]", df: "pd.DataFrame", colors: Any) -> None:
    """The scale of overhead, and what else the picture shows."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    bar = figure.colorbar(colors, ax=axes, orientation="horizontal", shrink=0.9, aspect=30, pad=0.02)
    most = colors.norm.vmax
    ticks = [t for t in _TICKS if t <= most]
    bar.set_ticks(ticks, labels=[f"{100 * (t - 1):.3g}" for t in ticks])
    bar.ax.minorticks_off()
    bar.set_label(_OVERHEAD)
    failed = [o for o in style.looks("outcome") if (df["outcome"] == o).any()]
    handles: list[Any] = [Patch(label=style.looks("outcome")[o].label, **_failed(o)) for o in failed]
    handles.append(Line2D([], [], label="smallest safe budget", **_safe_mark()))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), columnspacing=0.9, handletextpad=0.4)
