"""coopsim plot S|R|M: memory maps of schedules, also below each other; a sweep's curves; a feasibility map."""

import argparse
from pathlib import Path
from typing import Any

from coopsim.cli.common import note, trace_of
from coopsim.trace.file import read_parquet
from coopsim.types import CoopsimError


def run(args: argparse.Namespace) -> int:
    from coopsim import figures
    from coopsim.schedule import load

    formats = tuple(args.format.split(","))
    out = Path(args.output)
    drawn: list[Path] = []
    by_trace: dict[str, list[Any]] = {}
    traces: dict[str, Any] = {}
    for name in args.file:
        table, header = read_parquet(name, "schedule or sweep")
        if "schedule_version" in header:
            schedule = load(name)
            trace = trace_of(schedule, args.trace, name)
            traces[trace.content_hash] = trace
            by_trace.setdefault(trace.content_hash, []).append(schedule)
            drawn += figures.plot_schedule(schedule, trace, out, formats)
        elif "map" in header:
            drawn += figures.plot_map(table.to_pandas(), out, formats)
        elif "sweep_version" in header:
            drawn += figures.plot_sweep(table.to_pandas(), out, formats)
        else:
            raise CoopsimError(f"{name}: neither a schedule nor the table of a sweep or map")
    for content_hash, schedules in by_trace.items():
        if len(schedules) > 1 and out.suffix == "":
            drawn += figures.plot_comparison(schedules, traces[content_hash], out, formats)
    for path in drawn:
        note(f"wrote {path}")
    return 0
