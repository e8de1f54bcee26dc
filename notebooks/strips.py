"""Memory as a strip of blocks in address order, one strip a moment: how a search chooses, step by step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coopsim.base.types import Action, CoopsimError
from coopsim.study.figures import style
from coopsim.trace.schedule import GIVES_BACK, Schedule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


@dataclass(frozen=True)
class StripBlock:
    """A run of memory. `kind`: a name of `[strip]` in style.toml; `note` is written below it."""

    address: int
    bytes: int
    label: str = ""
    kind: str = "free"
    note: str = ""


@dataclass(frozen=True)
class Frame:
    """One moment. `window`: addresses (begin, end) to put a frame around; `victims`: labels of blocks that go now."""

    title: str
    blocks: Sequence[StripBlock]
    window: tuple[int, int] | None = None
    victims: frozenset[str] = frozenset()


def used(schedule: Schedule, row: int) -> dict[int, tuple[int, int]]:
    """What is in memory before a row of a schedule: address -> (storage, bytes). CoopsimError without addresses."""
    found: dict[int, tuple[int, int]] = {}
    for action, _, _, storage, _, address, nbytes, _, _ in schedule.rows()[:row]:
        if action in (Action.ALLOC, Action.MOVE):
            if address < 0:
                raise CoopsimError(f"allocator {schedule.header.get('allocator', '')!r} has no addresses")
            found[address] = storage, nbytes
        elif action in GIVES_BACK:
            del found[address]
    return found


def blocks(schedule: Schedule, row: int, labels: Mapping[int, str], kinds: Mapping[int, str]) -> list[StripBlock]:
    """Used blocks and holes before a row, in address order. `labels`, `kinds`: by storage."""
    found, at = list[StripBlock](), 0
    budget = int(schedule.header["budget_bytes"])
    for address, (storage, nbytes) in sorted(used(schedule, row).items()):
        if address > at:
            found.append(StripBlock(at, address - at))
        label, kind = labels.get(storage, f"s{storage}"), kinds.get(storage, "non-evictable")
        found.append(StripBlock(address, nbytes, label, kind))
        at = address + nbytes
    if at < budget:
        found.append(StripBlock(at, budget - at))
    return found


def draw(frames: Sequence[Frame], *, title: str = "", size: str = "column") -> "Figure":
    """Strips below each other on one axis of addresses. size: `column` or `slide`. CoopsimError for no frame."""
    from matplotlib.figure import Figure

    if not frames:
        raise CoopsimError("there is no moment to draw")
    end = max(p.address + p.bytes for f in frames for p in f.blocks)
    unit, name = next(u for u in _UNITS if end >= u[0])
    s = style.size(size)
    inch = s["font_pt"] / 72
    rows = [4.6 if any(p.note for p in f.blocks) else 3.6 for f in frames]
    height = (sum(rows) + 6 + 2 * bool(title)) * inch
    with style.applied(size):
        figure = Figure(figsize=(s["map_width_in"], height), layout="constrained")
        axes = figure.subplots(
            len(frames), 1, sharex=True, squeeze=False, height_ratios=rows if len(rows) > 1 else None
        )
        for ax, frame in zip(axes.ravel(), frames, strict=True):
            _strip(ax, frame, unit, end)
        last = axes.ravel()[-1]
        noted = any(p.note for p in frames[-1].blocks)
        last.tick_params(bottom=True, labelbottom=True, pad=s["font_pt"] * (1.3 if noted else 0.4))
        last.set_xlabel(f"address ({name})")
        figure.legend(handles=_legend(frames), loc="outside lower center", ncols=6)
        if title:
            figure.suptitle(title, x=0.01, ha="left")
    return figure


def _strip(ax: "Axes", frame: Frame, unit: int, end: int) -> None:
    from matplotlib.patches import Rectangle

    looks = style.looks("strip")
    for p in frame.blocks:
        x, width = p.address / unit, p.bytes / unit
        goes = p.label in frame.victims
        ax.add_patch(
            Rectangle(
                (x, 0),
                width,
                1,
                facecolor=looks[p.kind].color,
                edgecolor="#666666",
                linewidth=0.5,
                hatch="////" if goes else None,
            )
        )
        middle = x + width / 2
        if p.label:
            dark = p.kind == "expensive"
            ground = {"facecolor": looks[p.kind].color, "edgecolor": "none", "pad": 0.6} if goes else None
            ink = "white" if dark else "black"
            ax.text(middle, 0.46, p.label, ha="center", va="center", color=ink, bbox=ground)
        if p.note:
            ax.text(middle, -0.12, p.note, ha="center", va="top", fontsize="small", color="#444444")
    if frame.window:
        begin, stop = (w / unit for w in frame.window)
        ax.add_patch(
            Rectangle((begin, -0.06), stop - begin, 1.12, fill=False, edgecolor=looks["window"].color, linewidth=2.2)
        )
    ax.set(xlim=(-0.005 * end / unit, 1.005 * end / unit), ylim=(-0.1, 1.1), yticks=[])
    ax.set_title(frame.title, loc="left")
    ax.tick_params(bottom=False, labelbottom=False)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _legend(frames: Sequence[Frame]) -> list[Any]:
    from matplotlib.patches import Patch

    looks = style.looks("strip")
    kinds = {p.kind for f in frames for p in f.blocks}
    found = [
        Patch(facecolor=look.color, edgecolor="#666666", linewidth=0.5, label=look.label)
        for kind, look in looks.items()
        if kind in kinds
    ]
    if any(f.victims for f in frames):
        found.append(Patch(facecolor="white", edgecolor="#666666", hatch="////", label="is evicted"))
    if any(f.window for f in frames):
        found.append(Patch(fill=False, edgecolor=looks["window"].color, linewidth=2, label=looks["window"].label))
    return found


def rows_of_searches(schedule: Schedule) -> list[int]:
    """The rows of allocations that needed a search, in order."""
    return np.flatnonzero((schedule.action == Action.ALLOC) & (schedule.visits > 0)).tolist()
