"""The memory map of a schedule: addresses against GPU time for one step, and what lies where."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from coopsim.base.text import human, overhead
from coopsim.base.types import Action, CoopsimError, Outcome, Phase
from coopsim.study.figures import copies as copying
from coopsim.study.figures import output, style
from coopsim.study.figures.choice import ALL, PolicyChoice
from coopsim.study.figures.residences import FREE, ROLES, Residences, cells, largest_stretch, residences

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from coopsim.trace import Trace
    from coopsim.trace.schedule import Schedule

_TICK = "#000000"
_ROWS, _COLUMNS = 200, 600  # cells of a map of one schedule
_HOST, _ENGINES = 0.22, 0.14  # heights of what is below a map of a schedule with copies, as parts of the map's
_OUTLINED = 0.012  # of the budget: what is larger is seen as a tensor of its own
_HOW_TO_READ = (
    "A bar is a tensor: as high as it has bytes, as long as it is resident. What is recomputed is the overhead.\n"
    "Parameters are always resident: where they lie apart, no long run can be emptied."
)


def draw(
    schedule: "Schedule",
    trace: "Trace",
    *,
    step: int | None = None,
    size: style.Size = "column",
    choice: PolicyChoice = ALL,
) -> "Figure":
    """One step of a schedule as a map: address against GPU time since the step began, in the units that fit.

    step: from 0; None for the last one that the schedule has. size: `column`, `slide`, or width and height in inches.
    Colours are roles, what an op run again has made has one of its own; a black tick ends the residency of an evicted
    value. A cell of the drawn grid shows what most of it holds, and large tensors are outlined. At the right: the
    longest run of memory without parameters, buffers and optimizer state when the backward pass begins. If the schedule
    may offload, the bytes on the host and the two copy engines are below. CoopsimError as from `residences`.
    """
    return _figure([schedule], trace, step, size, choice)


def compare(
    schedules: "Sequence[Schedule]",
    trace: "Trace",
    *,
    step: int | None = None,
    size: style.Size = "column",
    choice: PolicyChoice = ALL,
    axes: "Sequence[Axes] | None" = None,
) -> "Figure":
    """The same step of several schedules of one trace, a row each, on the same axes; the rest as in `draw`.

    axes: of a figure of one's own, one per schedule; copies to the host are not drawn there.
    """
    if not schedules:
        raise CoopsimError("there is no schedule to draw")
    if axes is not None and len(axes) != len(schedules):
        raise CoopsimError(f"{len(axes)} axes are given for {len(schedules)} schedules, a panel each")
    return _figure(schedules, trace, step, size, choice, axes)


def data(schedule: "Schedule", trace: "Trace") -> "pd.DataFrame":
    """What is drawn: a row per residency, with address and bytes, begin and end in ns since the step began, role."""
    import pandas as pd

    r = residences(schedule, trace)
    columns = ("address", "bytes", "begin_ns", "end_ns", "storage", "op", "recomputed", "evicted")
    about = {"policy": schedule.header["policy"], "budget_bytes": schedule.header["budget_bytes"], "step": r.step}
    return pd.DataFrame(about | {c: getattr(r, c) for c in columns} | {"role": [ROLES[k] for k in r.role]})


def _figure(
    schedules: "Sequence[Schedule]",
    trace: "Trace",
    step: int | None,
    size: style.Size,
    choice: PolicyChoice,
    axes: "Sequence[Axes] | None" = None,
) -> "Figure":
    residencies = [residences(s, trace, step) for s in schedules]
    alone = len(schedules) == 1
    same_budget = len({x.header["budget_bytes"] for x in schedules}) == 1
    longest = max(r.length_ns for r in residencies)
    largest = max(int(x.header["budget_bytes"]) for x in schedules)
    s = style.size(size)
    copies = copying.copies(schedules[0], residencies[0].began_ns, longest) if alone and axes is None else None
    heights = [1.0] * len(schedules) + [_HOST, _ENGINES] * (copies is not None)
    height = s["map_height_in"] * (sum(heights) if alone else 0.55 * len(schedules) + 0.15)
    with nullcontext() if axes else style.applied(size):
        whole = axes is not None or "whole_width_in" in s
        if axes is None:
            drawn = style.figure(size, s["map_width_in"], height)
            grid = drawn.subplots(len(heights), 1, height_ratios=heights, sharex=True, sharey=not alone, squeeze=False)
            axes = grid.ravel().tolist()
        figure: Any = axes[0].get_figure(root=True)
        if copies is not None:
            copying.draw_host(axes[1], copies, longest)
            copying.draw_engines(axes[2], copies)
        for ax, schedule, r in zip(axes, schedules, residencies, strict=False):
            budget_bytes = int(schedule.header["budget_bytes"])
            _map(ax, r, budget_bytes, _ROWS if alone else _ROWS * 3 // 5, s)
            _stretch(ax, r, budget_bytes)
            if alone:
                title = _title(schedule, trace, r, choice, short=whole)
            else:
                budget = "" if same_budget else f", {_budget(schedule, trace)}"
                title = f"{_name(schedule, choice)}{budget}: {_figures(schedule)}"
            ax.set_title(title, loc="left", pad=1.8 * s["font_pt"])
        axes[0].set_xlim(0, longest)
        axes[0].set_ylim(0, 1.02 * largest)
        style.times(axes[-1], longest)
        style.units(axes[0], largest)
        if copies is not None:
            style.units(axes[1], int(copies.host_bytes.max(initial=1)), ticks=2)
            axes[1].set_ylabel(f"host ({style.unit_of(style.BYTES, int(copies.host_bytes.max(initial=1)))[1]})")
        number = f"{residencies[0].step + 1} of {_steps(schedules[0])}"
        axes[-1].set_xlabel(f"GPU time since the start of step {number} ({style.unit_of(style.TIME, longest)[1]})")
        address = f"address ({style.unit_of(style.BYTES, largest)[1]})"
        if alone:
            axes[0].set_ylabel(address)
        else:
            figure.supylabel(address, fontsize=s["font_pt"])
            setting = (
                f"{trace.label}, budget {_budget(schedules[0], trace, of_what=True)}" if same_budget else trace.label
            )
            setting = f"{setting}\n{output.of_schedule(schedules[0], trace)}"
            figure.suptitle(setting, x=0.02, ha="left", fontsize=s["font_pt"])
        figure.legend(
            handles=_legend(schedules, residencies),
            loc="outside lower center",
            ncols=5,
            title="" if whole else _HOW_TO_READ,
            alignment="left",
        )
        style.finish(figure, size)
    return figure  # type: ignore[no-any-return]


def _map(ax: "Axes", r: Residences, budget: int, rows: int, s: dict[str, float]) -> None:
    """Cells, outlines, eviction ticks, phases and the budget of one step."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    looks = style.looks("role")
    colors = np.array([to_rgb(looks[role].color) for role in (*ROLES, style.RECOMPUTED)] + [to_rgb("white")])
    assert FREE == -1  # the last colour
    picture = colors[cells(r, budget, rows, _COLUMNS)]
    extent = (0, r.length_ns, 0, budget)
    ax.imshow(picture, extent=extent, origin="lower", aspect="auto", interpolation="nearest", zorder=0)

    _outlines(
        ax, r, (r.bytes > _OUTLINED * budget) & (r.end_ns - r.begin_ns > 0.006 * r.length_ns), 0.03 * s["font_pt"]
    )
    x, low, high = r.end_ns, r.address, (r.address + r.bytes)
    seen = r.evicted & (r.bytes > budget / rows / 2)
    ends = np.stack([np.stack([x, low], -1), np.stack([x, high], -1)], 1)[seen]
    ax.add_collection(LineCollection(list(ends), colors=_TICK, linewidths=0.09 * s["font_pt"], rasterized=True))

    ax.axhline(budget, color="black", linewidth=0.12 * s["font_pt"], linestyle="--")
    _phases(ax, r, s)


def _stretch(ax: "Axes", r: Residences, budget: int) -> None:
    """Right of the map: the longest run of memory without parameters when the backward pass begins."""
    low, high = largest_stretch(r, budget, r.phases.get(Phase.BACKWARD, r.length_ns // 2))
    if high - low == budget:
        return
    across = ax.get_yaxis_transform()
    bracket = {"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (1.015, low), (1.015, high), xycoords=across, arrowprops=bracket, annotation_clip=False)
    unit, name = style.unit_of(style.BYTES, high - low)
    text = f"longest run\nwithout parameters:\n{(high - low) / unit:.1f} {name}"
    ax.text(1.035, (low + high) / 2, text, transform=across, va="center", fontsize="small")


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


def _outlines(ax: "Axes", r: Residences, which: Any, width: float) -> None:
    """A white line around each of the chosen residencies, as pixels in vector formats too."""
    from matplotlib.collections import PolyCollection

    x0, x1 = r.begin_ns[which], r.end_ns[which]
    y0, y1 = r.address[which], (r.address + r.bytes)[which]
    corners = np.stack([np.stack(p, -1) for p in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))], 1)
    look: Any = {"facecolors": "none", "edgecolors": "white", "linewidths": width, "rasterized": True}
    ax.add_collection(PolyCollection(list(corners), **look))


def _legend(schedules: "Sequence[Schedule]", residencies: list[Residences]) -> list[Any]:
    """The roles that can be seen (a thousandth of the budget and more), and the marks."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    present = set()
    for schedule, r in zip(schedules, residencies, strict=True):
        amount = np.bincount(r.role[~r.recomputed], r.bytes[~r.recomputed], len(ROLES))
        present |= {ROLES[k] for k in np.flatnonzero(amount > 0.001 * schedule.header["budget_bytes"])}
    present |= {style.RECOMPUTED} if any(r.recomputed.any() for r in residencies) else set()
    handles: list[Any] = [
        Patch(color=k.color, label=k.label) for name, k in style.looks("role").items() if name in present
    ]
    handles.append(Patch(facecolor="white", edgecolor="#AAAAAA", label="free"))
    if any(r.evicted.any() for r in residencies):
        handles.append(Line2D([], [], color=_TICK, marker="|", linestyle="none", label="eviction"))
    return [*handles, Line2D([], [], color="black", linestyle="--", label="budget")]


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' if n != 1 else ''}"


def _steps(schedule: "Schedule") -> int:
    return int(schedule.header["steps"])


def _name(schedule: "Schedule", choice: PolicyChoice) -> str:
    policy = str(schedule.header["policy"])
    return choice.labels.get(policy, style.policies([policy])[policy].label)


def _budget(schedule: "Schedule", trace: "Trace", *, of_what: bool = False) -> str:
    """The budget, and what part of the peak it is."""
    from coopsim.trace.measure import peak_bytes

    budget = int(schedule.header["budget_bytes"])
    ratio = budget / peak_bytes(trace, int(schedule.header.get("granule", 1)))
    return f"{human(budget)} ({ratio:.0%}{' of the peak without eviction' if of_what else ''})"


def _figures(schedule: "Schedule") -> str:
    """Overhead and fragmentation of the whole replay, or how it failed."""
    from coopsim.simulate.metrics import summary

    row = summary(schedule)
    if row["outcome"] != Outcome.OK:
        words = {Outcome.OOM: "out of memory", Outcome.THRASH: "thrashes", Outcome.LOST: "a value is lost"}
        return f"{words[Outcome(row['outcome'])]} in step {int(schedule.step.max()) + 1} of {_steps(schedule)}"
    rate = row["fragmentation_rate"]
    fragmentation = "no search" if rate is None else f"fragmentation rate {100 * rate:.1f} %"
    return f"overhead {overhead(row['overhead'])}, {fragmentation} over {_count(_steps(schedule), 'step')}"


def _title(schedule: "Schedule", trace: "Trace", r: Residences, choice: PolicyChoice, *, short: bool) -> str:
    evictions = (schedule.action == Action.EVICT) & (schedule.step == r.step)
    if short:
        return f"{_name(schedule, choice)} · {trace.label}, budget {_budget(schedule, trace)}; {_figures(schedule)}"
    return (
        f"{_name(schedule, choice)} · {trace.label}, budget {_budget(schedule, trace, of_what=True)}\n"
        f"{_figures(schedule)}; {_count(int(evictions.sum()), 'eviction')} in this step\n"
        f"{output.of_schedule(schedule, trace)}"
    )
