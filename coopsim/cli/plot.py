"""coopsim plot S|R|M|T: draw memory maps of schedules, a sweep's curves, a feasibility map, or a trace.

Several schedules of one trace are also drawn below each other. With --timeline, schedules are drawn by where their
steps' time goes instead.
"""

import argparse
from pathlib import Path
from typing import Any

from coopsim.cli.common import timeline_params
from coopsim.cli.traces import trace_of
from coopsim.progress import note
from coopsim.trace import load_trace
from coopsim.trace.file import read_parquet
from coopsim.types import CoopsimError


def run(args: argparse.Namespace) -> int:
    from coopsim import figures
    from coopsim.schedule import load

    formats = tuple(args.format.split(","))
    out = Path(args.output)
    params = timeline_params(args)
    drawn: list[Path] = []
    by_trace: dict[str, list[Any]] = {}
    traces: dict[str, Any] = {}
    for name in args.file:
        if params is None and not Path(name).exists():  # perhaps the name of a trace that comes with coopsim
            drawn += figures.plot_trace(load_trace(name), out, formats)
            continue
        table, header = read_parquet(name, "schedule, sweep or trace")
        if "schedule_version" in header:
            schedule = load(name)
            trace = trace_of(schedule, args.trace, name)
            traces[trace.content_hash] = trace
            by_trace.setdefault(trace.content_hash, []).append(schedule)
            if params is None:
                drawn += figures.plot_schedule(schedule, trace, out, formats)
        elif "map" in header and params is None:
            drawn += figures.plot_map(table.to_pandas(), out, formats)
        elif "sweep_version" in header and params is None:
            drawn += figures.plot_sweep(table.to_pandas(), out, formats, search_time=args.search_time)
        elif "schema_version" in header and params is None:
            drawn += figures.plot_trace(load_trace(name), out, formats)
        elif "sweep_version" in header:
            raise CoopsimError(f"{name}: a sweep's table has no actions to time; --timeline takes schedules")
        else:
            raise CoopsimError(f"{name}: neither a schedule nor the table of a sweep or map, nor a trace")
    for content_hash, schedules in by_trace.items():
        trace = traces[content_hash]
        if params is not None:
            drawn += figures.plot_time([_timed(s, trace, params) for s in schedules], trace, out, formats)
        elif len(schedules) > 1 and out.suffix == "":
            drawn += figures.plot_comparison(schedules, trace, out, formats)
    for path in drawn:
        note(f"wrote {path}")
    return 0


def _timed(schedule: Any, trace: Any, params: Any) -> Any:
    """Simulate a schedule in time, and return its bar."""
    from coopsim.figures.time import Bar
    from coopsim.timeline import simulate, summary
    from coopsim.trace.measure import peak_bytes

    h = schedule.header
    ratio = h["budget_bytes"] / peak_bytes(trace, h["granule"])
    return Bar(h["policy"], h["allocator"], ratio, h["outcome"], summary(simulate(schedule, trace, params)))
