"""Copies during a step, from a schedule's actions: when each engine is busy, and what the host holds."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from coopsim.base.types import Action
from coopsim.cards.link import CopyEngines, of_header
from coopsim.study.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from coopsim.trace.schedule import Schedule

Ints = NDArray[np.int64]
_ENGINES = ("to the host", "from the host")
_HELD, _ENGINE = "host", "engine"


@dataclass(frozen=True, eq=False)
class CopyActivity:
    """Copies that a step makes, times in ns since it begins, and the host's bytes over the step.

    A row of `busy_ns` per copy: its begin and end; `back` says which of them are fetches. `host_bytes` holds from the
    time beside it in `host_ns` to the next one, the last to the end of the step.
    """

    busy_ns: Ints
    back: NDArray[np.bool_]
    host_ns: Ints
    host_bytes: Ints


def copies(schedule: "Schedule", begin_ns: int, length_ns: int) -> CopyActivity | None:
    """The copies that overlap a step that begins at `begin_ns` of the schedule and lasts `length_ns`.

    None if the schedule was made without a link. Engines serve copies in the order of rows (docs/replay.md).
    """
    link = of_header(schedule.header)
    if link is None:
        return None
    rows = np.flatnonzero(np.isin(schedule.action, (Action.OFFLOAD, Action.FETCH, Action.DISCARD)))
    engines = CopyEngines(link)
    spans, back, host = list[tuple[int, int]](), list[bool](), [(0, 0)]
    columns = (schedule.action, schedule.time_ns, schedule.bytes)
    for action, time, nbytes in zip(*(c[rows].tolist() for c in columns), strict=True):
        if action != Action.FETCH:
            host.append((time, host[-1][1] + (nbytes if action == Action.OFFLOAD else -nbytes)))
        if action != Action.DISCARD:
            back.append(action == Action.FETCH)
            spans.append(engines.give(CopyEngines.BACK if back[-1] else CopyEngines.OUT, link.alone_ns(nbytes), time))
    busy = np.array(spans, np.int64).reshape(-1, 2)
    seen = (busy[:, 0] < begin_ns + length_ns) & (busy[:, 1] > begin_ns)
    held = np.array(host, np.int64)
    first = int(held[:, 0].searchsorted(begin_ns, side="right")) - 1
    last = int(held[:, 0].searchsorted(begin_ns + length_ns))
    return CopyActivity(
        busy_ns=np.clip(busy[seen] - begin_ns, 0, length_ns),
        back=np.array(back, np.bool_)[seen],
        host_ns=np.maximum(held[first:last, 0] - begin_ns, 0),
        host_bytes=held[first:last, 1],
    )


def draw_host(ax: "Axes", found: CopyActivity, length_ns: int) -> None:
    """The bytes that the host holds, over the step."""
    x, y = np.append(found.host_ns, length_ns), np.append(found.host_bytes, found.host_bytes[-1:])
    ax.fill_between(x, y, step="post", color=style.looks("copies")[_HELD].color, linewidth=0)
    ax.set_ylim(0, 1.08 * max(int(found.host_bytes.max(initial=0)), 1))


def draw_engines(ax: "Axes", found: CopyActivity) -> None:
    """A lane per engine, filled while it is busy."""
    for way in range(len(_ENGINES)):
        spans = found.busy_ns[found.back == bool(way)]
        bars = list(zip(spans[:, 0], spans[:, 1] - spans[:, 0], strict=True))
        ax.broken_barh(bars, (-way - 0.35, 0.7), color=style.looks("copies")[_ENGINE].color, linewidth=0)
        busy = int((spans[:, 1] - spans[:, 0]).sum())
        ax.text(1.01, -way, f"busy {_ms(busy)}", transform=ax.get_yaxis_transform(), va="center", fontsize="small")
    ax.set(ylim=(-1.5, 0.5), yticks=[0, -1], yticklabels=_ENGINES)


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.1f} ms" if ns >= 1e5 else f"{ns / 1e3:.0f} µs"
