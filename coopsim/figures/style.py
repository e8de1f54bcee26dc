"""How figures look: colours, markers and names of policies and roles, and sizes, from style.toml."""

import tomllib
import zlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.errors import unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def size(name: str) -> dict[str, float]:
    """Inches and points for `column`, `page` or `slide`. CoopsimError for another name."""
    sizes: dict[str, dict[str, float]] = _style()["size"]
    if name not in sizes:
        raise unknown("figure size", name, sizes)
    return sizes[name]


def applied(name: str) -> AbstractContextManager[None]:
    """A context in which matplotlib's settings are those for a size, `column`, `page` or `slide`."""
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


def add_legend(figure: "Figure", handles: Sequence[Any], place: Any, **more: Any) -> None:
    """Add a legend with as many columns as fit into the figure's width, and make the figure higher by its height."""
    for columns in range(len(handles), 0, -1):
        legend = figure.legend(handles=handles, loc=place, ncols=columns, **more)
        box = legend.get_window_extent()
        if columns == 1 or box.width < 0.98 * figure.bbox.width:
            figure.set_figheight(figure.get_figheight() + box.height / figure.dpi)
            return
        legend.remove()
