"""Axes of bytes and of ns, with ticks at simple multiples of the unit that fits."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
TIME = ((1e6, "ms"), (1e3, "µs"))


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
