"""Plain gradient checkpointing beside the policies in the same memory: what docs/policies.md shows.

    python -m experiments.checkpointing.compare    writes expected/checkpointing.csv and the tables; figures draws it

Recorded are a model's plain step and the same with `torch.utils.checkpoint` around its first blocks (checkpointed.py).
A checkpointed step needs no policy: its memory is the smallest arena in which three steps run without evicting anything
(Coop's placement, by bisection), its cost the sum of its ops. The policies replay the plain step: ten steps in one
arena, bands of 11 budgets within 2.5 % of the peak around each multiple of 5 %, and within 0.5 % around the memory of
each checkpointed step. Half an hour on one core. A sweep that was cut off is continued, and traces that are in
out/checkpointing are not recorded again.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from coopsim.base.progress import note
from coopsim.base.types import Role
from coopsim.record.capture import Job, capture
from coopsim.simulate.allocators.caching.trial import smallest
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.replay import measure, warm_up
from coopsim.study import tables
from coopsim.study.sweep import Grid, Processes, sweep
from coopsim.trace import Trace, load
from coopsim.trace.measure import live_bytes, peak_bytes, round_up
from coopsim.trace.requests_of import of_trace
from experiments.common import arguments
from experiments.common.pages import write_section
from experiments.figures.draw.checkpointing import CHECKPOINTING, GIB, POLICIES
from experiments.figures.experiment import EXPECTED, ROOT
from experiments.figures.results import table

BLOCKS = {"bert-large": 24, "gpt-2": 12, "swin-t": 12, "resnet-50": 16}  #: how many repeated blocks a model has
KEPT = (Role.PARAMETER, Role.BUFFER, Role.GRADIENT, Role.OPTIMIZER_STATE, Role.INPUT)
BUDGETS = tuple(f"{r}%" for r in range(100, 10, -5))
TORCH = "2.15.0"
GRANULE, MIB = 512, 1 << 20
OUT = ROOT / "out" / "checkpointing"


def recorded(model: str, blocks: int) -> Path:
    """The trace of a model's step with its first blocks checkpointed."""
    path = OUT / f"{model}-{blocks}.parquet"
    if not path.exists():
        os.environ |= {"MODEL": model, "BLOCKS": str(blocks)}
        capture(Job(str(Path(__file__).with_name("checkpointed.py")) + ":step", path, precision="tf32"))
        note(f"recorded {path.name}")
    return path


def least_arena(trace: Trace) -> int:
    """The smallest arena, to a MiB, in which three steps run without evicting anything."""
    peak = peak_bytes(trace, GRANULE)
    low, high = (peak - 1) // MIB, 2 * peak // MIB
    while high - low > 1:
        middle = (low + high) // 2
        found = measure(trace, "coop", middle * MIB, options=ReplayOptions(3))
        low, high = (low, middle) if found["outcome"] == "ok" and not found["evictions"] else (middle, high)
    return high * MIB


def floor(trace: Trace) -> int:
    """What no schedule can go below: the most that one op touches, and the parameters and gradients alive beside it."""
    size = round_up(trace.bytes, GRANULE)
    kept = np.isin(np.array(trace.role), [str(r) for r in KEPT])
    fixed = live_bytes(replace(trace, bytes=np.where(kept, trace.bytes, 0)), GRANULE)  # temporaries included
    most = 0
    for op in range(trace.n_ops):
        touched = {int(s) for part in (trace.reads, trace.mutates, trace.creates) for s in part[op]}
        most = max(most, int(fixed[op]) + sum(int(size[s]) for s in touched if not kept[s]))
    return most


def checkpointed(model: str) -> list[dict[str, Any]]:
    """A row for the plain step and for each number of checkpointed blocks."""
    rows: list[dict[str, Any]] = []
    for k in range(5):
        blocks = BLOCKS[model] * k // 4
        trace = load(recorded(model, blocks))
        rows.append(
            {
                "trace": model,
                "what": CHECKPOINTING,
                "blocks": blocks,
                "memory_bytes": least_arena(trace),
                "live_bytes": peak_bytes(trace, GRANULE),
                "card_bytes": smallest(of_trace(trace, iterations=3), TORCH, ""),
                "cost_ns": int(trace.cost_ns.sum()),
                "floor_bytes": floor(trace),
            }
        )
    for row in rows:
        row["memory_ratio"] = row["memory_bytes"] / rows[0]["live_bytes"]
        row["overhead"] = row["cost_ns"] / rows[0]["cost_ns"]
    return rows


def replayed(model: str, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each band of each policy; `blocks` says whose memory it is, empty for a multiple of 5 %."""
    file = str(recorded(model, 0))
    of = {round(p["memory_ratio"], 6): p["blocks"] for p in points[1:]}
    rows = []
    for name, budgets, width in (
        ("curve", BUDGETS, 0.05),
        ("same", tuple(f"{p['memory_bytes']}B" for p in points[1:]), 0.01),
    ):
        grid = Grid([file], POLICIES, budgets=budgets, band=11, band_width=width)
        found = tables.bands(sweep(grid, OUT / f"{model}-{name}.parquet", Processes()))
        for r in found.itertuples():
            blocks = of[r.band_center] if name == "same" else None
            row = {"trace": model, "what": r.policy, "blocks": blocks, "memory_ratio": r.band_center}
            row |= {"memory_bytes": round(r.band_center * points[0]["live_bytes"]), "points": r.points, "fits": r.fits}
            rows.append(row | {"overhead": r.overhead, "overhead_spread": r.overhead_spread})
        note(f"replayed {model}, {name}")
    return rows


def markdown(df: pd.DataFrame) -> str:
    """A row per step with half or all blocks checkpointed: its memory, its cost, what policies cost in that memory."""
    rows = []
    for point in df[(df.what == CHECKPOINTING)].itertuples():
        plain = df[(df.trace == point.trace) & (df.what == CHECKPOINTING)].iloc[0]
        sizes = f"{point.memory_bytes / GIB:.2f} ({point.memory_bytes / plain.live_bytes:.0%})"
        row = [point.trace, f"{point.blocks:.0f} of {BLOCKS[point.trace]}", sizes, f"{point.card_bytes / GIB:.2f}"]
        if point.blocks not in (BLOCKS[point.trace] / 2, BLOCKS[point.trace]):
            continue
        same = df[(df.trace == point.trace) & (df.blocks == point.blocks)].set_index("what")
        rows.append([*row, f"**{100 * (point.overhead - 1):.1f}**", *(_cell(same.loc[p]) for p in POLICIES)])
    names = ("DTR", "DTE", "Coop", "Thrift", "Foresight")
    head = ["model", "checkpointed blocks", "memory, GiB", "on PyTorch's allocator, GiB", "checkpointing", *names]
    return table(head, rows)


def _cell(row: pd.Series) -> str:
    if row.fits == 0:
        return "does not fit"
    some = f" ({row.fits:.0f} of {row.points:.0f})" if row.fits < row.points else ""
    return f"{100 * (row.overhead - 1):.1f} ± {100 * row.overhead_spread:.1f}{some}"


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    warm_up()
    rows = []
    for model in BLOCKS:
        points = checkpointed(model)
        rows += points + replayed(model, points)
    df = pd.DataFrame(rows)
    df.to_csv(EXPECTED / "checkpointing.csv", index=False, float_format="%.6f")
    write_section("checkpointing", markdown(df))


if __name__ == "__main__":
    arguments.none(__doc__)
    sys.exit(main())
