"""coopsim sweep T… -o R: replays over a grid, on all cores or a cluster, with progress; a table at the end."""

import argparse

from coopsim.cli import grid
from coopsim.progress import note, watch


def run(args: argparse.Namespace) -> int:
    from coopsim import files, tables
    from coopsim.sweep import grid_file, sweep

    files.target(args.output)
    wanted, _ = grid.of(args, grid_file.KEYS)
    where = grid.workers(args, wanted, len(wanted.points()))
    with watch("replays") as report:
        table = sweep(wanted, args.output, where, report)
    print(tables.text(table))
    note(f"wrote {args.output}: {len(table)} replays")
    return 0
