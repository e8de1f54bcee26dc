"""coopsim export S --torch-snapshot F | --perfetto F: convert a schedule for torch's memory_viz, or for Perfetto."""

import argparse

from coopsim.base.progress import note
from coopsim.base.types import CoopsimError
from coopsim.cli.common import timeline_params
from coopsim.cli.traces import trace_of


def run(args: argparse.Namespace) -> int:
    from coopsim.base import files
    from coopsim.trace.schedule import load

    files.target(args.torch_snapshot or args.perfetto)
    if args.torch_snapshot and args.timeline_params:
        raise CoopsimError("--timeline-params is for --perfetto; a snapshot has no times but the replay's")
    params = None if args.torch_snapshot else timeline_params(args)
    schedule = load(args.schedule)
    trace = trace_of(schedule, args.trace, args.schedule)
    if args.torch_snapshot:
        from coopsim.trace.snapshot.export import save, to_snapshot

        save(to_snapshot(schedule, trace), args.torch_snapshot)
        note(f"wrote {args.torch_snapshot}: drop it on https://docs.pytorch.org/memory_viz")
    else:
        from coopsim.simulate.timeline import perfetto, simulate

        n = perfetto.save(simulate(schedule, trace, params), schedule, trace, args.perfetto)
        note(f"wrote {args.perfetto}: {n} events; open it with https://ui.perfetto.dev")
    return 0
