"""The curves of a sweep's table in one panel per trace: lines, shades, marks, and what the legend says of them."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from coopsim.base.types import Outcome
from coopsim.study.figures import output, style
from coopsim.study.figures.bands import Band, Series, bands, series
from coopsim.study.figures.choice import PolicyChoice
from coopsim.study.grouping import grouping

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (4, 1.5, 1, 1.5)), (0, (8, 2)), (0, (2, 2)))
_NONE_FITS, _SOME_FIT = "does not fit", "not all budgets of the band fit"
_SPREAD = "shade"
_SHADED = "mean ± standard deviation of the band"
_FARTHER = (1.0, 2.0, 3.0)  # of a count from its marker, the nearest first
_SHADE = 0.18  #: how opaque it is


class Count(NamedTuple):
    """`2/3` at a point of the axes, in the colour of its curve."""

    ax: "Axes"
    x: float
    y: float
    text: str
    color: str


class Curves:
    """A table divided into curves, each with a look: a policy has one colour and marker, a variant one dash; where
    there is one policy alone, each variant has a colour of its own."""

    def __init__(self, df: "pd.DataFrame", choice: PolicyChoice) -> None:
        found = grouping(choice.rows(df))
        self.table = found.table
        self.traces: list[str] = list(dict.fromkeys(self.table["trace"]))
        divided = series(found)
        names = choice.names(dict.fromkeys(df["policy"]))
        self.rows = {name: divided[name] for name in sorted(divided, key=lambda s: names.index(s.policy))}
        self.looks = self._looks(choice.looks(df["policy"]))
        variants = list(dict.fromkeys(name.variant for name in divided))
        self.dashes = {name: _DASHES[variants.index(name.variant) % len(_DASHES)] for name in divided}
        self.unfit = self._unfit()
        self.counts: list[Count] = []
        self._shown: set[str] = set()

    def _looks(self, known: dict[str, style.Look]) -> dict[Series, style.Look]:
        policies = {name.policy for name in self.rows}
        if len(policies) > 1 or len(self.rows) == 1:
            return {name: known[name.policy] for name in self.rows}
        own = known[policies.pop()]
        others = [look for look in style.palette() if look.color != own.color]
        several = islice(cycle([own, *others]), len(self.rows))
        return {
            name: style.Look(own.label, look.color, look.marker) for name, look in zip(self.rows, several, strict=True)
        }

    def _unfit(self) -> dict[Series, dict[str, list[float]]]:
        """Of each curve that breaks off anywhere, the memory ratios at which no budget fits, by trace."""
        found: dict[Series, dict[str, list[float]]] = {}
        key: Any
        for name, whole in self.rows.items():
            for key, rows in whole.groupby(["trace", "band_center"], observed=True):
                if not (rows["outcome"] == Outcome.OK).any():
                    found.setdefault(name, {}).setdefault(str(key[0]), []).append(float(key[1]))
        return found

    @property
    def crosses_pt(self) -> float:
        """How high the rows of crosses above a panel are, in points."""
        return _row_pt() * len(self.unfit)

    @property
    def title_pt(self) -> float:
        """How far a title is above its panel, in points."""
        return 4 + self.crosses_pt

    def draw(
        self,
        ax: "Axes",
        trace: str,
        values: "Callable[[pd.DataFrame], pd.Series[float]]",
        *,
        log: bool = False,
        ticks: int = 8,
    ) -> None:
        """Draw the curves of one trace, with at most so many ticks of the memory ratio."""
        drawn: dict[Series, list[Band]] = {}
        for name, whole in self.rows.items():
            rows = whole[whole["trace"] == trace]
            if not rows.empty:
                drawn[name] = bands(rows, values(rows), "std")
        for name in reversed(drawn):  # the first in the legend comes on top
            self._curve(ax, drawn[name], self.looks[name], self.dashes[name])
        if log:
            ax.set_yscale("log")
        else:
            bottom, top = ax.get_ylim()
            ax.set_ylim(min(bottom, -0.04 * top), top)  # room for a marker at zero
        ax.grid(visible=True)
        ax.set_xlim(100 * self.table["band_center"].min() - 4, 100 * self.table["band_center"].max() + 4)
        ax.xaxis.set_major_locator(_locator(ticks))
        self._crosses(ax, trace)

    def _curve(self, ax: "Axes", points: list[Band], look: style.Look, dashes: Any) -> None:
        """Line, shade and markers; the line breaks where most budgets do not fit."""
        run: list[Band] = []
        for p in [*points, None]:
            if p is not None and not math.isnan(p.mean) and 2 * p.fits >= p.points:
                run.append(p)
                continue
            if run:
                x = [100 * b.ratio for b in run]
                low, high = [b.low for b in run], [b.high for b in run]
                ax.fill_between(x, low, high, color=look.color, alpha=_SHADE, linewidth=0)
                ax.plot(x, [b.mean for b in run], color=look.color, linestyle=dashes)
                self._shown |= {_SPREAD} if len(run) > 1 and any(b.points > 1 for b in run) else set()
            run = []
        for p in points:
            if math.isnan(p.mean):
                continue
            some = p.fits < p.points
            face = "white" if some else look.color
            ax.plot(100 * p.ratio, p.mean, look.marker, color=look.color, markerfacecolor=face, zorder=3)
            if some:
                self._shown.add(_SOME_FIT)
                self.counts.append(Count(ax, 100 * p.ratio, p.mean, f"{p.fits}/{p.points}", look.color))

    def _crosses(self, ax: "Axes", trace: str) -> None:
        """Above the panel, a row per curve that breaks off: a cross where nothing fits. It has no overhead, so no
        height."""
        from matplotlib.transforms import ScaledTranslation

        figure: Any = ax.get_figure(root=True)
        for k, (name, of) in enumerate(reversed(self.unfit.items())):
            x = [100 * ratio for ratio in of.get(trace, [])]
            if x:
                up = ScaledTranslation(0, (k + 0.8) * _row_pt() / 72, figure.dpi_scale_trans)
                look: Any = {"color": self.looks[name].color, "markeredgewidth": 1.2, "clip_on": False}
                ax.plot(x, [1.0] * len(x), "x", transform=ax.get_xaxis_transform() + up, **look)
                self._shown.add(_NONE_FITS)

    def handles(self) -> list[Any]:
        """For the legend: the curves, the shade, and the special marks that occur in what was drawn."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        handles: list[Any] = []
        for name, look in self.looks.items():
            label = " · ".join(filter(None, (look.label, name.variant)))
            handles.append(
                Line2D([], [], color=look.color, marker=look.marker, linestyle=self.dashes[name], label=label)
            )
        if _SPREAD in self._shown:
            handles.append(Patch(facecolor=output.GREY, alpha=_SHADE, linewidth=0, label=_SHADED))
        for label, marker, face in ((_SOME_FIT, "o", "white"), (_NONE_FITS, "x", "black")):
            if label in self._shown:
                look_of_mark: Any = {"color": "#444444", "marker": marker, "markerfacecolor": face, "linestyle": "none"}
                handles.append(Line2D([], [], label=label, **look_of_mark))
        return handles


def _locator(ticks: int) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=ticks, steps=[1, 2, 5, 10])


def _row_pt() -> float:
    """How far rows of crosses are apart, in points."""
    import matplotlib as mpl

    return 1.35 * float(mpl.rcParams["lines.markersize"])


def write_counts(figure: "Figure", counts: Sequence[Count]) -> None:
    """Write each where it lies on no other, no marker and no edge; those for which there is no such place are left out:
    their markers are hollow. To be called when the figure is laid out."""
    from matplotlib.patheffects import withStroke
    from matplotlib.transforms import Bbox

    taken: dict[Any, list[Any]] = {}
    for ax in {count.ax for count in counts}:
        at = [line.get_transform().transform(line.get_xydata()) for line in ax.lines if line.get_marker() != "None"]
        half = 0.6 * max((line.get_markersize() for line in ax.lines), default=0) * figure.dpi / 72
        taken[ax] = [Bbox([[x - half, y - half], [x + half, y + half]]) for points in at for x, y in points]
    for count in counts:
        text = count.ax.annotate(
            count.text,
            (count.x, count.y),
            xytext=(0, 0),
            textcoords="offset points",
            color=count.color,
            fontsize="x-small",
            zorder=4,
            path_effects=[withStroke(linewidth=2, foreground="white")],
        )
        size = float(text.get_fontsize())
        for across, up, side, edge in _places():
            text.set(position=(across * size, up * size), ha=side, va=edge)
            box = text.get_window_extent()
            inside = count.ax.get_window_extent().padded(1)
            is_in = inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1)
            if is_in and not any(box.overlaps(other) for other in taken[count.ax]):
                taken[count.ax].append(box)
                break
        else:
            text.remove()


def _places() -> Iterator[tuple[float, float, str, str]]:
    """Offsets in units of the font's size, and how the text is aligned there, the best first."""
    for far in _FARTHER:
        yield from ((0.6 * far, 0.5 * far, "left", "bottom"), (0.6 * far, -0.5 * far, "left", "top"))
        yield from ((-0.6 * far, 0.5 * far, "right", "bottom"), (-0.6 * far, -0.5 * far, "right", "top"))
        yield from ((0.0, 0.7 * far, "center", "bottom"), (0.0, -0.7 * far, "center", "top"))
