"""Where the time of a training step goes, a bar for each schedule; and how much of the search shows in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from coopsim.base.types import CoopsimError
from coopsim.study.figures import style
from coopsim.study.figures.choice import ALL, PolicyChoice

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Bar:
    """A schedule: its policy, allocator, memory ratio and outcome, and what timeline.summary says of it."""

    policy: str
    allocator: str
    ratio: float
    outcome: str
    summary: Mapping[str, Any]

    def parts(self) -> dict[str, float]:
        """Milliseconds a step, by what the GPU does; they add up to the time until its last task is done."""
        s = self.summary
        search = min(s["exposed_search_ns"], s["gpu_waited_ns"])
        calls = min(s["exposed_device_calls_ns"], s["gpu_waited_ns"] - search)
        ns = {
            "compute": s["compute_ns"],
            "recompute": s["recompute_ns"],
            "copy": s["copy_ns"],
            "wait_search": search,
            "wait_device": calls,
            "wait_host": s["gpu_waited_ns"] - search - calls,
        }
        return {what: n / 1e6 / s["steps"] for what, n in ns.items()}

    def search(self) -> dict[str, float]:
        """Milliseconds a step that the host searches: behind the GPU's work, and at its cost."""
        s = self.summary
        shown = s["exposed_search_ns"]
        return {"hidden": (s["search_ns"] - shown) / 1e6 / s["steps"], "wait_search": shown / 1e6 / s["steps"]}


def draw(bars: Sequence[Bar], *, title: str = "", size: style.Size = "column", choice: PolicyChoice = ALL) -> "Figure":
    """A bar for each schedule, largest memory first, then in the order of policies.

    CoopsimError if there is none, or if one has no whole step.
    """
    if not bars:
        raise CoopsimError("no schedule to draw the time of")
    for bar in bars:
        if not bar.summary["steps"]:
            raise CoopsimError(f"the schedule of {bar.policy} at {bar.ratio:.0%} has no op, so its time goes nowhere")
    with style.applied(size):
        return _draw(bars, title, size, choice)


def _draw(bars: Sequence[Bar], title: str, size: style.Size, choice: PolicyChoice) -> "Figure":
    from matplotlib.patches import Patch

    order = choice.names(b.policy for b in bars)
    bars = sorted(bars, key=lambda b: (-b.ratio, order.index(b.policy), b.allocator))
    looks = style.looks("time")
    groups = np.cumsum([0, *(a.ratio != b.ratio for a, b in pairwise(bars))])
    y = (np.arange(len(bars)) + 0.5 * groups).tolist()
    s = style.size(size)
    line = 1.75 * s["font_pt"] / 72
    figure = style.figure(size, s["map_width_in"], line * (y[-1] + 1.2 + 1.2 * bool(title) + 2.4))
    left, right = figure.subplots(1, 2, width_ratios=[2.4, 1], sharey=True)
    shown = _stack(left, y, [b.parts() for b in bars], looks)
    shown |= _stack(right, y, [b.search() for b in bars], looks)
    left.set_yticks(y, _labels(bars, choice))
    left.set_ylim(y[-1] + 0.6, -0.6)
    left.set_xlabel("GPU's time per step (ms)")
    right.set_xlabel("modelled search per step (ms)")
    for ax in (left, right):
        ax.grid(visible=True, axis="x")
        ax.tick_params(axis="y", length=0)
    if title:
        figure.suptitle(title, x=0.01, ha="left")
    handles = [Patch(facecolor=looks[k].color, label=looks[k].label) for k in looks if k in shown]
    legend = figure.legend(handles=handles, loc="outside lower left", ncols=2)
    if "whole_width_in" not in s:
        figure.set_figheight(figure.get_figheight() + legend.get_window_extent().height / figure.dpi)
    return figure


def _stack(
    ax: "Axes", y: list[float], bars: Sequence[Mapping[str, float]], looks: Mapping[str, style.Look]
) -> set[str]:
    """Stacked bars. Returns what can be seen in any."""
    ends = [0.0] * len(bars)
    for what in (w for w in looks if w in bars[0]):
        widths = [b[what] for b in bars]
        ax.barh(y, widths, 0.72, left=ends, color=looks[what].color)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    ax.set_xlim(0, 1.04 * max(ends) or 1)
    return {w for w in looks if any(b.get(w, 0) > 0.001 * max(ends) for b in bars)}


def _labels(bars: Sequence[Bar], choice: PolicyChoice) -> list[str]:
    """Policy and memory ratio; the allocator where there are several, and how it ended where not well."""
    looks = choice.looks(b.policy for b in bars)
    several = len({b.allocator for b in bars}) > 1
    labels = []
    for b in bars:
        words = [looks[b.policy].label, f"{b.ratio:.0%}"]
        words += [b.allocator] * several + [f"({b.outcome})"] * (b.outcome != "ok")
        labels.append(" ".join(words))
    return labels


def data(bars: Sequence[Bar]) -> "pd.DataFrame":
    """What is drawn: a row per schedule, with the ms per step of each part, and of search behind the GPU's work."""
    import pandas as pd

    about = ("policy", "allocator", "ratio", "outcome")
    return pd.DataFrame([{name: getattr(b, name) for name in about} | b.parts() | b.search() for b in bars])
