"""How figures look: colours, markers and names of policies and roles, and sizes, from style.toml."""

import re
import tomllib
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.base.errors import unknown
from coopsim.base.types import CoopsimError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
TIME = ((1e6, "ms"), (1e3, "µs"))
RECOMPUTED = "recomputed"  #: stands among the roles for what has been made again


@dataclass(frozen=True)
class Look:
    """How a policy, or a role, is drawn and called."""

    label: str
    color: str
    marker: str = ""


@cache
def _style() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "style.toml").read_text(encoding="utf-8"))


def policies(names: Iterable[str]) -> dict[str, Look]:
    """A look for each policy, by name. One that style.toml does not know takes a spare look.

    Which spare one is a hash of its name, moved on if another unknown policy of the same figure has it: the same set of
    names always gets the same looks, and no two share one while there are spare ones left.

    >>> policies(["coop"])["coop"].label
    'Coop'
    """
    known, spares = _style()["policy"], _style()["spare"]
    found: dict[str, Look] = {}
    taken: set[int] = set()
    for name in sorted(set(names)):
        base, _, changes = name.partition(":")
        if name in known:
            found[name] = Look(**known[name])
            continue
        k = zlib.crc32(name.encode()) % len(spares)
        while k in taken and len(taken) < len(spares):
            k = (k + 1) % len(spares)
        taken.add(k)
        label = known.get(base, {"label": base})["label"]
        found[name] = Look(f"{label} ({changes.replace(',', ', ')})" if changes else label, **spares[k])
    return found


def palette() -> list[Look]:
    """Looks that differ, for what is no policy."""
    looks = [Look("", look["color"], look["marker"]) for look in (*_style()["policy"].values(), *_style()["spare"])]
    return list({look.color: look for look in looks}.values())


def order(names: Iterable[str]) -> list[str]:
    """Policies in the order of the legend: as in style.toml, then the others by name."""
    known = list(_style()["policy"])
    return sorted(set(names), key=lambda n: (known.index(n) if n in known else len(known), n))


def looks(kind: str) -> dict[str, Look]:
    """A look for each name of a table of style.toml, in the order of the legend.

    `role`: each role of types.Role, and RECOMPUTED; `copies`: what the host holds, and an engine that copies; `memory`:
    each kind of memory at a failure; `time`: each activity that a step's time goes into; `strip`: each kind of block of
    a small memory, and the window; `outcome`: each outcome that is not `ok`, whose marker is a hatch; `allocator`: each
    allocator of request streams.
    """
    return {name: Look(**look) for name, look in _style()[kind].items()}


def holders() -> list[str]:
    """Colours for what holds the most memory."""
    colors: list[str] = _style()["holders"]["colors"]
    return colors


Size = str | tuple[float, float]  #: a name, or the inches of the whole figure, which may be written `6.8x2.2`
_MOST_IN = 100


def size(asked: Size) -> dict[str, float]:
    """Inches and points for `column`, `page` or `slide`, or for a figure of so many inches; CoopsimError for others.

    Of the latter, `whole_width_in` and `whole_height_in` are those asked for; its text is that of a page's.
    """
    sizes: dict[str, dict[str, float]] = _style()["size"]
    if isinstance(asked, str) and (inches := re.fullmatch(r"([\d.]+) ?x ?([\d.]+)", asked)):
        try:
            asked = float(inches[1]), float(inches[2])
        except ValueError:
            raise CoopsimError(f"size: {asked!r} is not WIDTHxHEIGHT in inches, such as 6.8x2.2") from None
    if not isinstance(asked, str):
        if not (isinstance(asked, tuple | list) and len(asked) == 2 and all(0 < float(n) <= _MOST_IN for n in asked)):
            raise CoopsimError(f"size: {asked!r} is not a width and a height in inches, up to {_MOST_IN}")
        return sizes["page"] | {"whole_width_in": float(asked[0]), "whole_height_in": float(asked[1])}
    if asked not in sizes:
        raise unknown("figure size", asked, sizes)
    return sizes[asked]


_by_pyplot: ContextVar[bool] = ContextVar("by_pyplot", default=False)


@contextmanager
def by_pyplot() -> Iterator[None]:
    """Within the context, figures are pyplot's, which shows them; else nobody but their holder knows of them."""
    from matplotlib import pyplot

    # Loads the backend: that of a notebook becomes interactive, which `applied` would take back.
    pyplot.draw_if_interactive()  # type: ignore[no-untyped-call]
    token = _by_pyplot.set(True)
    try:
        yield
    finally:
        _by_pyplot.reset(token)


def figure(asked: Size, width_in: float, height_in: float) -> "Figure":
    """An empty figure of so many inches, or of those that are asked for."""
    from matplotlib.figure import Figure

    s = size(asked)
    inches = s.get("whole_width_in", width_in), s.get("whole_height_in", height_in)
    if not _by_pyplot.get():
        return Figure(figsize=inches, layout="constrained")
    from matplotlib import pyplot

    return pyplot.figure(figsize=inches, layout="constrained")


def finish(drawn: "Figure", asked: Size) -> None:
    """Lay a figure out. CoopsimError if its panels do not fit into the inches that are asked for."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*axes sizes collapsed to zero.*")
        try:
            drawn.draw_without_rendering()
        except UserWarning:
            width, height = drawn.get_size_inches()
            panels = len(drawn.axes)
            raise CoopsimError(
                f"size: {panels} panel{'s' * (panels > 1)} with labels and legend do not fit into {width:g} x "
                f"{height:g} inches; choose fewer traces, or a larger size than {asked}"
            ) from None


def applied(name: Size) -> AbstractContextManager[None]:
    """A context in which matplotlib's settings are those for a size."""
    import matplotlib as mpl

    s = size(name)
    font = s["font_pt"]
    settings: Any = {
        "font.family": "DejaVu Sans",
        "font.size": font,
        "axes.titlesize": font,
        "axes.labelsize": font,
        "xtick.labelsize": 0.9 * font,
        "ytick.labelsize": 0.9 * font,
        "legend.fontsize": 0.9 * font,
        "figure.titlesize": 1.1 * font,
        "lines.linewidth": s["line_pt"],
        "lines.markersize": s["marker_pt"],
        "lines.markeredgewidth": min(1.0, 0.2 * s["marker_pt"]),  # so that small hollow ones are seen to be hollow
        "axes.linewidth": 0.08 * font,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": "#E4E4E4",
        "grid.linewidth": 0.06 * font,
        "legend.frameon": False,
        "legend.handlelength": 1.8,
        "legend.columnspacing": 1.2,
    }
    return mpl.rc_context(settings)


def add_legend(figure: "Figure", handles: Sequence[Any], place: Any, *, grow: bool = True, **more: Any) -> None:
    """Add a legend with as many columns as fit into the figure's width; grow: make the figure higher by its height."""
    for columns in range(len(handles), 0, -1):
        legend = figure.legend(handles=handles, loc=place, ncols=columns, **more)
        box = legend.get_window_extent()
        if columns == 1 or box.width < 0.98 * figure.bbox.width:
            if grow:
                figure.set_figheight(figure.get_figheight() + box.height / figure.dpi)
            return
        legend.remove()


def unit_of(units: tuple[tuple[float, str], ...], most: float) -> tuple[float, str]:
    """The largest unit that `most` has one of, or the smallest there is."""
    return next((u for u in units if most >= u[0]), units[-1])


def times(ax: "Axes", longest: int) -> None:
    """Ticks at simple multiples of the unit of time that fits; the axis itself is in ns."""
    _ticks(ax.xaxis, unit_of(TIME, longest)[0], longest, 8)


def units(ax: "Axes", largest: int, ticks: int = 8) -> None:
    """Ticks at simple multiples of the unit that fits; the axis itself is in bytes."""
    _ticks(ax.yaxis, unit_of(BYTES, largest)[0], largest, ticks)


def _ticks(axis: Any, unit: float, most: float, count: int) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    ticks = MaxNLocator(nbins=count, steps=[1, 2, 5, 10]).tick_values(0, most / unit)
    axis.set_ticks([t * unit for t in ticks if 0 <= t <= most / unit])
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:g}"))
