"""coopsim plot S|R: a memory map for each schedule, and all in one figure if there are several; curves for a sweep."""

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
        elif "sweep_version" in header:
            drawn += figures.plot_sweep(table.to_pandas(), out, formats)
        else:
            raise CoopsimError(f"{name}: neither a schedule nor a sweep's table")
    for content_hash, schedules in by_trace.items():
        if len(schedules) > 1 and out.suffix == "":
            drawn += figures.plot_comparison(schedules, traces[content_hash], out, formats)
    for path in drawn:
        note(f"wrote {path}")
    return 0
