"""How many budgets of a band fit, written beside its marker where there is room."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FARTHER = (1.0, 2.0, 3.0)


class Count(NamedTuple):
    """`2/3` at a point of the axes, in the colour of its curve."""

    ax: "Axes"
    x: float
    y: float
    text: str
    color: str


def write(figure: "Figure", counts: Sequence[Count]) -> None:
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
