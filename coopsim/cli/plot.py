"""coopsim plot S|R|M|T: draw memory maps of schedules, a sweep's curves, a feasibility map, or a trace.

Several schedules of one trace are also drawn below each other. With --timeline, schedules are drawn by where their
steps' time goes instead.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopsim.base.progress import note
from coopsim.base.types import CoopsimError
from coopsim.cli.common import timeline_params
from coopsim.cli.traces import trace_of
from coopsim.trace import load_trace
from coopsim.trace.file import read_parquet

if TYPE_CHECKING:
    from coopsim.study.figures.choice import PolicyChoice


def run(args: argparse.Namespace) -> int:
    from coopsim.study import figures, plotting
    from coopsim.study.figures.style import size
    from coopsim.trace.schedule import load

    out, params, choice = Path(args.output), timeline_params(args), _choice(args)
    size(args.size)
    files = figures.FigureFiles(out, args.format.split(","), args.size, choice)
    drawn: list[Path] = []
    data: list[Any] = []
    by_trace: dict[str, list[Any]] = {}
    traces: dict[str, Any] = {}
    for name in args.file:
        if params is None and not Path(name).exists():  # perhaps the name of a trace that comes with coopsim
            trace = load_trace(name)
            drawn += files.trace(trace)
            data.append(lambda trace=trace: plotting.data_of(trace))
            continue
        table, header = read_parquet(name, "schedule, sweep or trace")
        if "schedule_version" in header:
            schedule = load(name)
            trace = trace_of(schedule, args.trace, name)
            traces[trace.content_hash] = trace
            by_trace.setdefault(trace.content_hash, []).append(schedule)
        elif "sweep_version" in header and params is None:
            df = table.to_pandas()
            drawn += files.map(df) if "map" in header else files.sweep(df, search_time=args.search_time)
            data.append(lambda df=df: plotting.data_of(df, choice=choice))
        elif "schema_version" in header and params is None:
            trace = load_trace(name)
            drawn += files.trace(trace)
            data.append(lambda trace=trace: plotting.data_of(trace))
        elif "sweep_version" in header:
            raise CoopsimError(f"{name}: a sweep's table has no actions to time; --timeline takes schedules")
        else:
            raise CoopsimError(f"{name}: neither a schedule nor the table of a sweep or map, nor a trace")
    for content_hash, several in by_trace.items():
        trace = traces[content_hash]
        schedules = plotting.chosen(several, choice)
        if params is not None:
            bars = [_timed(s, trace, params) for s in schedules]
            drawn += files.time(bars, trace)
            data.append(lambda bars=bars: figures.time.data(bars))
            continue
        for schedule in schedules:
            drawn += files.schedule(schedule, trace)
        if len(schedules) > 1 and out.suffix == "":
            drawn += files.comparison(schedules, trace)
        data.append(lambda schedules=schedules, trace=trace: plotting.data_of(schedules, trace))
    if args.data:
        if len(data) > 1:
            raise CoopsimError("--data writes one table: plot one sweep, one map, one trace, or schedules of one trace")
        plotting.write_data(data[0](), args.data)
        drawn.append(Path(args.data))
    for path in drawn:
        note(f"wrote {path}")
    return 0


def _choice(args: argparse.Namespace) -> "PolicyChoice":
    """Which policies are drawn, and what they are called. CoopsimError for a label without a policy."""
    from coopsim.simulate import policies
    from coopsim.study.figures.choice import PolicyChoice

    labels = {}
    for text in args.labels or []:
        for pair in [text] if ":" in text else text.split(","):
            name, is_pair, label = pair.rpartition("=")
            if not (is_pair and name and label):
                raise CoopsimError(f"--labels: {pair!r} is not POLICY=LABEL, such as coop=Ours")
            labels[name.strip()] = label.strip()
    return PolicyChoice(policies.split(args.policies) if args.policies else (), labels=labels)


def _timed(schedule: Any, trace: Any, params: Any) -> Any:
    """Simulate a schedule in time, and return its bar."""
    from coopsim.simulate.timeline import simulate, summary
    from coopsim.study.figures.time import Bar
    from coopsim.trace.measure import peak_bytes

    h = schedule.header
    ratio = h["budget_bytes"] / peak_bytes(trace, h["granule"])
    return Bar(h["policy"], h["allocator"], ratio, h["outcome"], summary(simulate(schedule, trace, params)))
