"""Draws flow.png, greedy.png and window.png of docs/how-it-works.md: `python docs/images/draw.py`."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from coopsim.base.types import Action
from coopsim.simulate.policies import find
from coopsim.simulate.replay import replay
from coopsim.study.figures import save, style
from coopsim.trace.synth import make

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "notebooks"))
import strips  # noqa: E402
from strips import Frame, StripBlock  # noqa: E402

MIB = 1 << 20
TRACE = make("synth:holes:4")  # cheap and expensive layers in turn, then a wide one, tensor 9
LABELS = {0: "input", 9: "wide"} | {k: f"{'c' if k % 2 else 'E'}{(k + 1) // 2}" for k in range(1, 9)}
KINDS = {0: "non-evictable", 9: "new"} | {k: "cheap" if k % 2 else "expensive" for k in range(1, 9)}


def greedy() -> list[Frame]:
    """DTR evicts until 3 MiB lie side by side."""
    schedule = replay(TRACE, "dtr-oneflow", 10 * MIB, steps=1)
    row = strips.rows_of_searches(schedule)[0]
    frames = []
    for k, r in enumerate(r for r in range(row) if schedule.action[r] == Action.EVICT):
        blocks = strips.blocks(schedule, r, LABELS, KINDS)
        holes = [p.bytes // MIB for p in blocks if p.kind == "free"]
        goes = LABELS[int(schedule.storage[r])]
        title = f"{k + 1}. {sum(holes)} MiB free, largest hole {max(holes)} MiB: evict {goes}"
        frames.append(Frame(title, blocks, victims=frozenset({goes})))
    return [*frames, Frame("the 3 MiB fit", strips.blocks(schedule, row + 1, LABELS, KINDS))]


def window() -> list[Frame]:
    """Coop's first search: every window that is large enough, and the one that goes."""
    frames: list[Frame] = []

    def search(memory: Any, need: int) -> list[int]:
        best, least, run = [], float("inf"), []
        everything = memory.blocks()
        drawn = [_drawn(memory, p) for p in everything]
        for block in everything:
            run = [] if block.value >= 0 and not block.can_go else [*run, block]
            while run and sum(p.bytes for p in run[1:]) >= need:
                run = run[1:]
            if sum(p.bytes for p in run) < need:
                continue
            cost = sum(memory.score(p.value) for p in run if p.value >= 0)
            around = run[0].address, run[-1].address + run[-1].bytes
            if len(frames) < 5:
                frames.append(Frame(f"window with the sum {cost:.3f}", drawn, window=around))
            if cost < least:
                best, least = run, cost
        if len(frames) == 5:
            around = best[0].address, best[-1].address + best[-1].bytes
            gone = frozenset(LABELS[p.value] for p in best if p.value >= 0)
            frames.append(Frame(f"the cheapest goes: {least:.3f}", drawn, window=around, victims=gone))
        return [p.value for p in best if p.value >= 0]

    policy = replace(find("coop:placement=low"), name="coop", choose=search)
    replay(TRACE, policy, 10 * MIB, steps=1)
    return frames


def _drawn(memory: Any, block: Any) -> StripBlock:
    if block.value < 0:
        return StripBlock(block.address, block.bytes, note="0")
    note = f"{memory.score(block.value):.3f}" if block.can_go else "barrier"
    kind = KINDS.get(block.value, "cheap") if block.can_go else "non-evictable"
    return StripBlock(block.address, block.bytes, LABELS.get(block.value, ""), kind, note)


#: Boxes of the flow: what is handed on, what is in it, and where it stands.
FLOW = {
    "script": ("a training script", "unmodified PyTorch", (0, 1)),
    "trace": ("trace", "ops, storages, lifetimes, costs", (1.05, 1)),
    "schedule": ("schedule", "what is evicted, what recomputed", (2.3, 1)),
    "judged": ("judged and drawn", "overhead, fragmentation, maps", (3.45, 2)),
    "real": ("PyTorch's allocator", "serves the same requests", (3.45, 1)),
    "live": ("real training", "inside the budget, bit for bit", (3.45, 0)),
    "verdict": ("a verdict", "fits or not, and what to change", (1.05, 0)),
}
#: From, to, the command, and what else it takes.
ARROWS = [
    ("script", "trace", "capture", ""),
    ("trace", "schedule", "replay", "policy, allocator,\nbudget"),
    ("schedule", "judged", "validate, plot", ""),
    ("schedule", "real", "validate", "--against"),
    ("schedule", "live", "live run", ""),
    ("script", "verdict", "phantom run, fit", ""),
]
WIDE, HIGH = 0.76, 0.56
PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1}


def flow() -> Figure:
    """From a script to a schedule, and what a schedule is good for."""
    with style.applied("page"):
        figure = Figure(figsize=(8.0, 2.7), dpi=200)
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set(xlim=(-0.1, 4.31), ylim=(-0.4, 2.4))
        ax.set_axis_off()
        for name, (what, more, (x, y)) in FLOW.items():
            color = {"script": "#8A98A5", "live": "#D55E00", "verdict": "#D55E00"}.get(name, "#0072B2")
            box = Rectangle((x, y - HIGH / 2), WIDE, HIGH, facecolor="white", edgecolor=color, linewidth=1.2)
            ax.add_patch(box)
            ax.text(x + WIDE / 2, y + 0.09, what, ha="center", va="center", fontweight="bold", fontsize=7)
            ax.text(x + WIDE / 2, y - 0.12, more, ha="center", va="center", fontsize=5.4, color="#444444")
        for start, end, command, more in ARROWS:
            (x, y), (u, v) = FLOW[start][2], FLOW[end][2]
            a, b = (x + WIDE + 0.02, y + 0.16 * (v - y)), (u - 0.02, v - 0.1 * (v - y))
            if end == "verdict":
                a = (x + WIDE / 2, y - HIGH / 2 - 0.02)
            ax.annotate("", b, a, arrowprops={"arrowstyle": "->", "color": "#444444", "shrinkA": 0, "shrinkB": 0})
            level = v == y
            at = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2 + 0.1 * level)
            mono = {"family": "DejaVu Sans Mono", "fontsize": 5.6, "ha": "center", "va": "center"}
            ax.text(*at, command, bbox=None if level else PAPER, **mono)
            if more:
                ax.text(
                    at[0],
                    y - 0.1 - 0.06 * more.count("\n"),
                    more,
                    **mono if more.startswith("-") else mono | {"family": "DejaVu Sans"},
                )
    return figure


if __name__ == "__main__":
    save(flow(), HERE / "flow.png", dpi=200)
    save(strips.draw(greedy(), title="DTR: one tensor at a time"), HERE / "greedy.png")
    save(strips.draw(window(), title="Coop: one window"), HERE / "window.png")
