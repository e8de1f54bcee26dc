r"""Reserved and allocated memory over the steps of a long run, where it runs out, and why.

python experiments/longrun/train.py --lengths 4000 > lengths.txt
python -m experiments.longrun.figure lengths.txt    # docs/images/long-run.png, and the example of docs/long-runs.md
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from coopsim.base.progress import note
from coopsim.base.types import GIB
from coopsim.run import Script, run
from coopsim.run.launch import longer
from coopsim.run.longrun.play import PEAK_ALLOCATED, PEAK_RESERVED
from coopsim.run.longrun.run import LongRun
from coopsim.run.longrun.verdict import judge
from coopsim.run.memory import ENDLESS, of_card
from coopsim.study.figures import save, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
_WINDOWS = 120
_NEAR = 1.6  #: a card with more than so many times the most that is reserved is not drawn
#: What the reserved bytes are for: name, colour; in the order in which they lie on each other.
_PARTS = (
    ("usual step", "#999999"),
    ("longest input", "#56B4E9"),
    ("kept", "#E69F00"),
    ("fragmentation", "#D55E00"),
)


def draw(
    allocated: NDArray[np.int64],
    reserved: NDArray[np.int64],
    card_bytes: int,
    parts: Mapping[str, int],
    *,
    runs_out: tuple[int, str] | None = None,
    size: str = "column",
) -> "Figure":
    """The peaks of each step where memory never runs out, in GiB, and beside them what the highest is made of.

    `parts`: bytes by the names in _PARTS. `runs_out`: the step at which the card's memory runs out, and the cause.
    `size`: `column` or `slide`.
    """
    from matplotlib.figure import Figure

    s = style.size(size)
    with style.applied(size):
        figure = Figure(figsize=(s["map_width_in"], 1.15 * s["height_in"]), layout="constrained")
        ax, bar = figure.subplots(1, 2, width_ratios=[7, 1], sharey=True)
        _steps(ax, allocated, reserved)
        most = int(reserved.max())
        is_near = card_bytes < _NEAR * most
        top = max(most, card_bytes) if is_near else most
        if is_near:
            ax.axhline(card_bytes / GIB, color="black", lw=0.8, ls="--", label="the card")
        if runs_out is not None:
            step, cause = runs_out
            ax.axvline(step, color=_PARTS[-1][1], lw=1)
            right = step > 0.6 * len(reserved)
            said = f"runs out at step {step}:\n{cause}"
            y = 1.2 * top / GIB
            ax.annotate(
                said, (step, y), (-4 if right else 4, -2), textcoords="offset points", va="top",
                ha="right" if right else "left", color=_PARTS[-1][1],
            )  # fmt: skip
        ax.set(xlabel="step", ylabel="memory (GiB)", xlim=(1, len(reserved)), ylim=(0, 1.22 * top / GIB))
        _bar(bar, parts)
        handles = [*ax.get_legend_handles_labels()[0], *bar.get_legend_handles_labels()[0][::-1]]
        labels = [*ax.get_legend_handles_labels()[1], *bar.get_legend_handles_labels()[1][::-1]]
        figure.legend(handles, labels, loc="outside right center")
    return figure


def _steps(ax: "Axes", allocated: NDArray[np.int64], reserved: NDArray[np.int64]) -> None:
    """The least and the most of windows of steps."""
    size = max(len(allocated) // _WINDOWS, 1)
    starts = np.arange(0, len(allocated), size)
    x = np.append(starts + 1, len(allocated))
    for values, color, label in ((reserved, "#0072B2", "reserved"), (allocated, "#009E73", "allocated")):
        low, high = (f.reduceat(values, starts) / GIB for f in (np.minimum, np.maximum))
        ax.fill_between(
            x, np.append(low, low[-1]), np.append(high, high[-1]), step="post", color=color, alpha=0.35, lw=0
        )
        ax.step(x, np.append(high, high[-1]), where="post", color=color, lw=0.8, label=label)


def _bar(ax: "Axes", parts: Mapping[str, int]) -> None:
    base = 0.0
    for name, color in _PARTS:
        height = parts[name] / GIB
        if height > 0:
            ax.bar(0, height, bottom=base, color=color, label=name, width=0.8)
        base += height
    ax.set_xticks([0], ["at its\nmost"])
    ax.tick_params(axis="both", length=0)
    ax.grid(visible=False)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)


def main() -> None:
    """Replay the script beside this file, and draw."""
    card, memory, steps = "rtx-3060", of_card("rtx-3060", "8.56GiB", "memory"), 150
    script = Script(("python", str(HERE / "train.py")), card=card, steps=steps).with_memory(ENDLESS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "steps")
        report = run(script, step_requests=file)
        [(_, recorded)] = longer.recorded(report, file)
        played = LongRun(recorded, Path(sys.argv[1]), None)
        verdict = judge(played, longer.card_of(report, memory or 0), note)
    of, peaks = verdict.parts, played.endless.bytes
    parts = {
        "usual step": of.base_bytes,
        "longest input": of.longer_input_bytes,
        "kept": of.kept_bytes,
        "fragmentation": of.fragmentation_bytes,
    }
    out = (verdict.out.step, verdict.out.cause) if verdict.out else None
    card_bytes = verdict.card.limit_bytes or verdict.card.bytes
    figure = draw(peaks[:, PEAK_ALLOCATED], peaks[:, PEAK_RESERVED], card_bytes, parts, runs_out=out)
    save(figure, HERE.parents[1] / "docs/images/long-run.png")


if __name__ == "__main__":
    main()
