"""coopsim export S --torch-snapshot F: a simulated run for torch's memory_viz."""

import argparse

from coopsim.cli.common import note, trace_of


def run(args: argparse.Namespace) -> int:
    from coopsim import files
    from coopsim.schedule import load
    from coopsim.snapshot.export import save, to_snapshot

    files.target(args.torch_snapshot)
    schedule = load(args.schedule)
    save(to_snapshot(schedule, trace_of(schedule, args.trace, args.schedule)), args.torch_snapshot)
    note(f"wrote {args.torch_snapshot}: drop it on https://docs.pytorch.org/memory_viz")
    return 0
