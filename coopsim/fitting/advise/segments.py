"""Where memory was when it ran out: every segment and block, as one tape that is wrapped into rows."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from coopsim.base.text import human
from coopsim.study.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from coopsim.fitting.advise.failure import Failure

_ROWS = 24


def draw(failure: "Failure", *, title: str, size: str = "column") -> "Figure":
    """The memory of a failure, or of a peak. Segments are in order of address; what is in none comes last."""
    with style.applied(size):
        return _draw(failure, title, style.size(size))


def _draw(failure: "Failure", title: str, s: dict[str, float]) -> "Figure":
    from matplotlib.collections import PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    looks = style.looks("memory")
    top = [label for label, _ in _held(failure).most_common(len(style.holders()))]
    looks |= {label: style.Look(_short(label), color) for label, color in zip(top, style.holders(), strict=False)}
    total = failure.reserved_bytes + failure.unused_device_bytes
    row = -(-total // _ROWS)
    figure = Figure(figsize=(s["map_width_in"], 0.62 * s["map_width_in"]), layout="constrained")
    ax = figure.add_subplot()
    patches: dict[str, list[Any]] = {}
    sums: Counter[str] = Counter()
    borders: list[tuple[float, int]] = []
    at = 0
    for kind, nbytes, starts in _parts(failure, set(top)):
        if starts:
            borders.append((at % row / row, at // row))
        sums[kind] += nbytes
        while nbytes > 0:
            part = min(nbytes, row - at % row)
            patches.setdefault(kind, []).append(Rectangle((at % row / row, at // row), part / row, 0.86))
            at, nbytes = at + part, nbytes - part
    for kind, rectangles in patches.items():
        ax.add_collection(PatchCollection(rectangles, facecolor=looks[kind].color, edgecolor="none"))
    for x, y in borders:
        ax.plot([x, x], [y, y + 0.86], color="#222222", linewidth=0.6, solid_capstyle="butt")
    for y in range(_ROWS):
        ax.add_patch(Rectangle((0, y), 1, 0.86, fill=False, edgecolor="#999999", linewidth=0.3))
    ax.set(xlim=(-0.002, 1.002), ylim=(_ROWS, -0.14), xticks=[], yticks=[])
    ax.set_title(title, loc="left")
    ax.set_xlabel(f"one row is {human(row)}; dark lines mark where segments begin", loc="left")
    for spine in ax.spines.values():
        spine.set_visible(False)
    shown = [k for k in dict.fromkeys((*top, *looks)) if sums[k]]
    handles = [
        Patch(facecolor=looks[k].color, edgecolor="#999999", linewidth=0.4, label=f"{looks[k].label}: {human(sums[k])}")
        for k in shown
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=2)
    return figure


def _parts(failure: "Failure", top: set[str]) -> Iterator[tuple[str, int, bool]]:
    """(what it is, bytes, whether a segment starts here), along the tape."""
    for segment, labels in zip(failure.segments, failure.labels, strict=True):
        for i, (block, label) in enumerate(zip(segment.blocks, labels, strict=True)):
            if block.state == "A":
                kind = label if label in top else "other"
            elif block.state == "P":
                kind = "pending"
            else:
                kind = failure.kind_of_free(segment)
            yield kind, block.bytes, i == 0
    if failure.unused_device_bytes:
        yield "unused", failure.unused_device_bytes, True


def _held(failure: "Failure") -> Counter[str]:
    held: Counter[str] = Counter()
    for segment, labels in zip(failure.segments, failure.labels, strict=True):
        for block, label in zip(segment.blocks, labels, strict=True):
            if block.state == "A":
                held[label] += block.bytes
    return held


def _short(label: str) -> str:
    return label if len(label) <= 34 else "…" + label[-33:]
