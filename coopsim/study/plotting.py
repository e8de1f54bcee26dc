"""`coopsim.plot`: the figure of whatever coopsim makes, in pyplot's figures or in axes of one's own; and its data."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.base.errors import of_type, several
from coopsim.base.files import replacing
from coopsim.base.types import CoopsimError
from coopsim.study import tables
from coopsim.study.figures import alive, feasibility, lines, memory_map, style
from coopsim.study.figures.bands import check
from coopsim.study.figures.choice import PolicyChoice
from coopsim.trace import Trace
from coopsim.trace.schedule import Schedule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame
else:
    Axes = DataFrame = Any  # so that typing.get_type_hints works without importing them


def plot(
    what: "Schedule | Sequence[Schedule] | Trace | DataFrame",
    trace: Trace | None = None,
    *,
    ax: "Axes | Sequence[Axes] | None" = None,
    quantity: str = "",
    policies: Sequence[str] = (),
    order: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    colors: Mapping[str, str] | None = None,
    size: style.Size = "column",
    data: str | Path | None = None,
) -> Any:
    """Draw with pyplot, and return the Axes, or an array of them where there are several panels.

    what: the table of a sweep, as curves, or of a map, as what fits; a schedule, as its memory map, or several of one
    trace; a trace alone, as the bytes that are alive without eviction, by role. trace: what the schedules were made
    from. In a notebook each figure is shown, in loops, too; in a script by `plt.show()`. `ax.figure.savefig` writes it.

    ax: axes to draw into, or as many as there are traces; they keep the style that they have. quantity, of a sweep:
    `overhead`, `fragmentation`, `search` or `search_time` alone (default: the first three; with ax the first).
    policies: those to draw, in this order (default: all). order: those to come first. labels and colors: by name of the
    policy; one that is called otherwise keeps its colour. size: `column`, `page`, `slide`, or width and height in
    inches, `(6.8, 2.2)`. data: a CSV file to write what is drawn into. CoopsimError for anything else, or schedules
    without addresses.
    """
    if trace is not None:
        of_type("trace", trace, Trace, "coopsim.load gives one")
    choice = PolicyChoice(tuple(several(policies)), tuple(several(order)), labels or {}, colors or {})
    axes = None if ax is None else list(ax.flat) if hasattr(ax, "flat") else several(ax)
    with style.by_pyplot():
        figure = _draw(what, trace, axes, quantity, choice, size)
    if data is not None:
        write_data(data_of(what, trace, choice), data)
    if axes is None:
        axes = [panel for panel in figure.axes if panel.axison and panel.get_label() != "<colorbar>"]
    if len(axes) == 1:
        return axes[0]
    import numpy as np

    return np.array(axes, object)


def _draw(
    what: Any, trace: Trace | None, axes: "list[Axes] | None", quantity: str, choice: PolicyChoice, size: style.Size
) -> "Figure":
    is_table = hasattr(what, "columns")
    is_map = is_table and "refined" in what.columns
    if quantity and (not is_table or is_map):
        raise CoopsimError("quantity is for the table of a sweep")
    if is_map:
        return feasibility.draw(what, size=size, choice=choice, axes=axes)
    if is_table and (quantity or axes):
        return lines.draw(what, quantity or "overhead", size=size, choice=choice, axes=axes)
    if is_table:
        return lines.overview(what, size=size, choice=choice)
    if isinstance(what, Trace):
        if choice != PolicyChoice():
            raise CoopsimError("a trace alone has no policies to choose, name or colour")
        return alive.draw(what, size=size, axes=axes)
    schedules = chosen(_schedules(what, trace), choice)
    assert trace is not None
    return memory_map.compare(schedules, trace, size=size, choice=choice, axes=axes)


def _schedules(what: Any, trace: Trace | None) -> list[Schedule]:
    schedules = several(what)
    if not schedules or not all(isinstance(s, Schedule) for s in schedules):
        kind = type(what).__name__
        raise CoopsimError(f"there is no figure of a {kind}: plot(schedule, trace), or the table of a sweep")
    if trace is None:
        raise CoopsimError("a schedule is drawn with its trace: plot(schedule, trace)")
    return schedules


def chosen(schedules: Sequence[Schedule], choice: PolicyChoice) -> list[Schedule]:
    """The schedules to draw, in order: as they are given, but for what is chosen."""
    there = [str(s.header["policy"]) for s in schedules]
    names = choice.names(there, list(dict.fromkeys(there)))
    keep = [s for s in schedules if s.header["policy"] in names]
    return sorted(keep, key=lambda s: names.index(s.header["policy"])) if choice.policies or choice.order else keep


def data_of(what: Any, trace: Trace | None = None, choice: PolicyChoice | None = None) -> "DataFrame":
    """What a figure shows, as a table: bands of a sweep, the rows of a map, bytes of a trace by role, residencies of
    the last step of schedules."""
    import pandas as pd

    choice = choice or PolicyChoice()
    if hasattr(what, "columns"):
        rows = choice.rows(check(what))
        return rows if "refined" in rows.columns else tables.bands(rows)
    if isinstance(what, Trace):
        return alive.data(what)
    schedules = chosen(_schedules(what, trace), choice)
    assert trace is not None
    return pd.concat([memory_map.data(schedule, trace) for schedule in schedules], ignore_index=True)


def write_data(table: "DataFrame", path: str | Path) -> None:
    """Write a table as CSV, whole or not at all. CoopsimError if it cannot be written, or for another format."""
    if Path(path).suffix.lower() != ".csv":
        raise CoopsimError(f"{path}: data of figures are written as CSV; name the file F.csv")
    with replacing(path) as part:
        table.to_csv(part, index=False)
