"""coopsim plot S|R: a memory map for schedules, curves for a sweep."""

import argparse
from pathlib import Path

from coopsim.cli.common import note, trace_of
from coopsim.trace.file import read_parquet
from coopsim.types import CoopsimError


def run(args: argparse.Namespace) -> int:
    from coopsim import figures

    formats = tuple(args.format.split(","))
    out = Path(args.output)
    drawn = []
    for name in args.file:
        table, header = read_parquet(name, "schedule or sweep")
        if "schedule_version" in header:
            from coopsim.schedule import load

            schedule = load(name)
            drawn += figures.plot_schedule(schedule, trace_of(schedule, args.trace, name), out, formats)
        elif "sweep_version" in header:
            drawn += figures.plot_sweep(table.to_pandas(), out, formats)
        else:
            raise CoopsimError(f"{name}: neither a schedule nor a sweep's table")
    for path in drawn:
        note(f"wrote {path}")
    return 0
