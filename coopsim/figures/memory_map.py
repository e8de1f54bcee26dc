"""The memory map of a schedule: addresses against GPU time for one step, a rectangle per stay of a value in memory."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coopsim.figures import style
from coopsim.figures.residences import ROLES, Residences, residences
from coopsim.text import human
from coopsim.types import Action, CoopsimError, Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from coopsim.schedule import Schedule
    from coopsim.trace import Trace

_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_TIME = ((1e6, "ms"), (1e3, "µs"))
_TICK = "#000000"


def draw(schedule: "Schedule", trace: "Trace", *, step: int | None = None, size: str = "column") -> "Figure":
    """One step of a schedule as a map: address against GPU time since the step began, in the units that fit.

    step: from 0; None for the last one that the schedule has. size: `column` or `slide`. Rectangles are coloured by
    role, what an op run again has made in a colour of its own; a black tick ends the stay of an evicted value.
    CoopsimError as from `residences`.
    """
    return _figure([schedule], trace, step, size)


def compare(
    schedules: "Sequence[Schedule]", trace: "Trace", *, step: int | None = None, size: str = "column"
) -> "Figure":
    """The same step of several schedules of one trace, a row each, on the same axes; the rest as in `draw`."""
    if not schedules:
        raise CoopsimError("there is no schedule to draw")
    return _figure(schedules, trace, step, size)


def _figure(schedules: "Sequence[Schedule]", trace: "Trace", step: int | None, size: str) -> "Figure":
    from matplotlib.figure import Figure

    stays = [residences(s, trace, step) for s in schedules]
    alone = len(schedules) == 1
    same_budget = len({x.header["budget_bytes"] for x in schedules}) == 1
    longest = max(r.length_ns for r in stays)
    largest = max(int(x.header["budget_bytes"]) for x in schedules)
    s = style.size(size)
    height = s["map_height_in"] * (1 if alone else 0.55 * len(schedules) + 0.15)
    with style.applied(size):
        figure = Figure(figsize=(s["map_width_in"], height), layout="constrained")
        axes = figure.subplots(len(schedules), 1, sharex=True, sharey=True, squeeze=False).ravel().tolist()
        for ax, schedule, r in zip(axes, schedules, stays, strict=True):
            _map(ax, r, int(schedule.header["budget_bytes"]), s)
            if alone:
                title = _title(schedule, trace, r)
            else:
                budget = "" if same_budget else f", {_budget(schedule, trace)}"
                title = f"{_name(schedule)}{budget}: {_figures(schedule)}"
            ax.set_title(title, loc="left", pad=1.8 * s["font_pt"])
        axes[0].set_xlim(0, longest)
        axes[0].set_ylim(0, 1.02 * largest)
        _units(axes[-1], longest, largest)
        number = f"{stays[0].step + 1} of {_steps(schedules[0])}"
        axes[-1].set_xlabel(f"GPU time since the start of step {number} ({_unit(_TIME, longest)[1]})")
        address = f"address ({_unit(_BYTES, largest)[1]})"
        if alone:
            axes[0].set_ylabel(address)
        else:
            figure.supylabel(address, fontsize=s["font_pt"])
            setting = (
                f"{trace.label}, budget {_budget(schedules[0], trace, of_what=True)}" if same_budget else trace.label
            )
            figure.suptitle(setting, x=0.02, ha="left", fontsize=s["font_pt"])
        figure.legend(handles=_legend(schedules, stays), loc="outside right upper")
    return figure


def _unit(units: tuple[tuple[float, str], ...], most: float) -> tuple[float, str]:
    """The largest unit that `most` has one of, or the smallest there is."""
    return next((u for u in units if most >= u[0]), units[-1])


def _units(ax: "Axes", longest: int, largest: int) -> None:
    """Ticks at round numbers of the units that fit; the axes themselves are in ns and bytes."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for axis, units, most in ((ax.xaxis, _TIME, longest), (ax.yaxis, _BYTES, largest)):
        unit = _unit(units, most)[0]
        ticks = MaxNLocator(nbins=8, steps=[1, 2, 5, 10]).tick_values(0, most / unit)
        axis.set_ticks([t * unit for t in ticks if 0 <= t <= most / unit])
        axis.set_major_formatter(FuncFormatter(lambda value, _, unit=unit: f"{value / unit:g}"))


def _map(ax: "Axes", r: Residences, budget: int, s: dict[str, float]) -> None:
    """Rectangles, eviction ticks, phases and the budget of one step."""
    from matplotlib.collections import LineCollection

    looks = style.roles()
    large = (r.bytes > 0.006 * budget) & (r.end_ns - r.begin_ns > 0.006 * r.length_ns)
    for k, role in enumerate([*ROLES, style.RECOMPUTED]):
        mine = r.recomputed if role == style.RECOMPUTED else (r.role == k) & ~r.recomputed
        _rectangles(ax, r, mine & ~large, looks[role].color, 0.0)
        _rectangles(ax, r, mine & large, looks[role].color, 0.03 * s["font_pt"])
    x, low, high = r.end_ns, r.address, (r.address + r.bytes)
    ends = np.stack([np.stack([x, low], -1), np.stack([x, high], -1)], 1)[r.evicted]
    ax.add_collection(LineCollection(list(ends), colors=_TICK, linewidths=0.09 * s["font_pt"], rasterized=True))

    ax.axhline(budget, color="black", linewidth=0.12 * s["font_pt"], linestyle="--")
    _phases(ax, r, s)


def _phases(ax: "Axes", r: Residences, s: dict[str, float]) -> None:
    """A line where a phase of the step begins, and its name above."""
    starts = sorted((t, phase) for phase, t in r.phases.items())
    for k, (t, phase) in enumerate(starts):
        until = starts[k + 1][0] if k + 1 < len(starts) else r.length_ns
        if k:
            ax.axvline(t, color="black", linewidth=0.08 * s["font_pt"], linestyle=":")
        if until - t > 0.1 * r.length_ns:
            x, side = (t + until) / 2, "center"
        else:  # too narrow for its name
            x, side = (until, "right") if k else (t, "left")
        ax.annotate(
            phase,
            (x, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 0.2),
            textcoords="offset fontsize",
            ha=side,
            va="bottom",
            fontsize="small",
        )


def _rectangles(ax: "Axes", r: Residences, which: Any, color: str, edge: float) -> None:
    """The chosen stays in one collection, as pixels in vector formats too: there are tens of thousands."""
    from matplotlib.collections import PolyCollection

    if not which.any():
        return
    x0, x1 = r.begin_ns[which], r.end_ns[which]
    y0, y1 = r.address[which], (r.address + r.bytes)[which]
    corners = np.stack([np.stack(p, -1) for p in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))], 1)
    ax.add_collection(
        PolyCollection(
            list(corners),
            facecolors=color,
            edgecolors="white" if edge else "none",
            linewidths=edge,
            antialiased=bool(edge),
            rasterized=True,
        )
    )


def _legend(schedules: "Sequence[Schedule]", stays: list[Residences]) -> list[Any]:
    """The roles that can be seen (a thousandth of the budget and more), and the marks."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    present = set()
    for schedule, r in zip(schedules, stays, strict=True):
        amount = np.bincount(r.role[~r.recomputed], r.bytes[~r.recomputed], len(ROLES))
        present |= {ROLES[k] for k in np.flatnonzero(amount > 0.001 * schedule.header["budget_bytes"])}
    present |= {style.RECOMPUTED} if any(r.recomputed.any() for r in stays) else set()
    handles: list[Any] = [Patch(color=k.color, label=k.label) for name, k in style.roles().items() if name in present]
    handles.append(Patch(facecolor="white", edgecolor="#AAAAAA", label="free"))
    if any(r.evicted.any() for r in stays):
        handles.append(Line2D([], [], color=_TICK, marker="|", linestyle="none", label="eviction"))
    return [*handles, Line2D([], [], color="black", linestyle="--", label="budget")]


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' if n != 1 else ''}"


def _steps(schedule: "Schedule") -> int:
    return int(schedule.header["steps"])


def _name(schedule: "Schedule") -> str:
    policy = str(schedule.header["policy"])
    return style.policies([policy])[policy].label


def _budget(schedule: "Schedule", trace: "Trace", *, of_what: bool = False) -> str:
    """The budget, and what part of the peak it is."""
    from coopsim.trace.measure import peak_bytes

    budget = int(schedule.header["budget_bytes"])
    ratio = budget / peak_bytes(trace, int(schedule.header.get("granule", 1)))
    return f"{human(budget)} ({ratio:.0%}{' of the peak without eviction' if of_what else ''})"


def _figures(schedule: "Schedule") -> str:
    """Overhead and fragmentation of the whole replay, or how it failed."""
    from coopsim.metrics import summary

    row = summary(schedule)
    if row["outcome"] != Outcome.OK:
        words = {Outcome.OOM: "out of memory", Outcome.THRASH: "thrashes", Outcome.LOST: "a value is lost"}
        return f"{words[Outcome(row['outcome'])]} in step {int(schedule.step.max()) + 1} of {_steps(schedule)}"
    rate = row["fragmentation_rate"]
    fragmentation = "no search" if rate is None else f"fragmentation {rate:.1%}"
    return f"overhead {row['overhead']:.3f}×, {fragmentation} over {_count(_steps(schedule), 'step')}"  # noqa: RUF001


def _title(schedule: "Schedule", trace: "Trace", r: Residences) -> str:
    evictions = (schedule.action == Action.EVICT) & (schedule.step == r.step)
    return (
        f"{_name(schedule)} · {trace.label}, budget {_budget(schedule, trace, of_what=True)}\n"
        f"{_figures(schedule)}; {_count(int(evictions.sum()), 'eviction')} in this step"
    )
