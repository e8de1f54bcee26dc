"""A sweep's table, a map's, schedules of a chain to draw, and what every figure must keep."""

from typing import Any

import pandas as pd

from coopsim.base.types import Phase, Role
from coopsim.simulate.replay import replay
from coopsim.trace import Trace, TraceBuilder
from coopsim.trace.measure import peak_bytes


def row(policy: str, center: float, k: int, **changed: object) -> dict[str, object]:
    """One replay of a sweep's table."""
    return {
        "trace": "toy",
        "policy": policy,
        "allocator": "arena",
        "outcome": "ok",
        "steps": 10,
        "band_center": center,
        "memory_ratio": center + 0.01 * k,
        "overhead": 1.2 + 0.1 * k,
        "fragmentation_rate": 0.03,
        "search_visits": 1000 * (k + 3),
        "search_ns": 50_000_000,
    } | changed


def table() -> pd.DataFrame:
    """Coop fits everywhere, DTR in part at 0.4 and nowhere at 0.3, `mine` nowhere at all."""
    failed = {"outcome": "oom", "overhead": None, "fragmentation_rate": None}
    rows = []
    for center in (0.3, 0.4, 0.5, 1.0):
        for k in (-1, 0, 1):
            rows.append(row("coop", center, k))
            dtr_fails = center == 0.3 or (center == 0.4 and k < 1)
            rows.append(row("dtr-oneflow", center, k, **(failed if dtr_fails else {})))
            rows.append(row("mine", center, k, **failed))
    return pd.DataFrame(rows)


def mapped(*traces: str) -> pd.DataFrame:
    """Coop fits above 20 %; DTR above 40 % but for a hole of one fine step; `mine` ends in every way there is."""
    rows = []
    for trace in traces:
        for ratio in [k / 100 for k in range(10, 101, 2)] + [0.451]:
            for policy, outcome in (
                ("coop", "ok" if ratio > 0.2 else "oom"),
                ("dtr-oneflow", "ok" if ratio > 0.4 and ratio != 0.451 else "thrash"),
                ("mine", "lost" if ratio > 0.8 else "thrash" if ratio > 0.5 else "oom"),
            ):
                overhead = 1 + 0.1 / ratio if outcome == "ok" else None
                one = row(policy, ratio, 0, trace=trace, outcome=outcome, overhead=overhead)
                rows.append(one | {"budget_bytes": round(1e6 * ratio), "refined": ratio == 0.451})
    return pd.DataFrame(rows)


def chain(layers: int = 12) -> Trace:
    """Forward and back through a chain, with weights, gradients and an update in place."""
    b = TraceBuilder()
    weights = [b.storage(2048, Role.PARAMETER, alive_at_start=True) for _ in range(layers)]
    x = [b.storage(8192, Role.INPUT, alive_at_start=True)]
    for i, w in enumerate(weights):
        x.append(b.storage(8192 + 1024 * (i % 3)))
        b.op("f", reads=[x[-2], w], creates=[x[-1]], temporaries=[512], cost_ns=1000 + 37 * i)
    grad, gradients = x[-1], []
    for i in reversed(range(layers)):
        new = b.storage(8192)
        gradients.append(b.storage(2048, Role.GRADIENT))
        b.op("g", reads=[x[i], grad], creates=[new, gradients[-1]], cost_ns=2000 + 41 * i, phase=Phase.BACKWARD)
        b.free(grad)
        grad = new
        if i > 0:
            b.free(x[i])
    b.free(grad)
    for w, g in zip(reversed(weights), gradients, strict=True):
        b.op("sgd", reads=[g], mutates=[w], cost_ns=100, phase=Phase.OPTIMIZER)
        b.free(g)
    return b.build({"model": "chain"})


TRACE = chain()
SQUEEZED = {
    p: replay(TRACE, p, int(0.7 * peak_bytes(TRACE, 512)), steps=3) for p in ("coop", "dte-oneflow", "dtr-oneflow")
}


def texts_are_inside_and_apart(figure: Any) -> None:
    """No text is cut off by the edge of the figure, and titles, labels and phases do not lie on each other."""
    from matplotlib.text import Annotation, Text

    figure.draw_without_rendering()
    whole = figure.bbox
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    boxes = [(t, t.get_window_extent()) for t in texts if not isinstance(t, Annotation) or "/" not in t.get_text()]
    for t, box in boxes:
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= whole.x1 + 1 and box.y1 <= whole.y1 + 1
        assert inside or not _shown(t, figure), f"{t.get_text()!r} is cut off"
    shown = [(t, box) for t, box in boxes if _shown(t, figure)]
    for i, (t, a) in enumerate(shown):
        for u, b in shown[:i]:
            over = min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
            assert not over, f"{t.get_text()!r} lies on {u.get_text()!r}"


def _shown(text: Any, figure: Any) -> bool:
    """Matplotlib keeps tick labels outside the view; those are not drawn."""
    for ax in [*figure.axes, *(child for parent in figure.axes for child in parent.child_axes)]:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if text in (tick.label1, tick.label2):
                    return ax.axison and low <= tick.get_loc() <= high
    return True
