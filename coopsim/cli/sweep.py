"""coopsim sweep T… [-o R]: replay over a grid, on all cores or a cluster; print bands, or every row as JSON."""

import argparse
import json
from typing import Any

from coopsim.base.progress import note, watch
from coopsim.base.text import count
from coopsim.cli import grid


def run(args: argparse.Namespace) -> int:
    from coopsim.study import tables
    from coopsim.study.sweep import grid_file
    from coopsim.study.sweep.sweep import sweep

    with grid.table(args) as output:
        wanted, _ = grid.of(args, grid_file.KEYS)
        where = grid.workers(args, wanted, len(wanted.points()))
        with watch("replays") as report:
            table = sweep(wanted, output, where, report)
    print(json.dumps(_object(args.output, table), indent=1) if args.json else tables.text(table))
    note(
        f"wrote {args.output}: {count(len(table), 'replay')}"
        if args.output
        else f"{count(len(table), 'replay')}; -o keeps the table"
    )
    return 0


def _object(output: str | None, table: Any) -> dict[str, Any]:
    """Return what --json prints: the table's file and its rows; undefined values are null."""
    rows = [
        {key: None if value != value else value for key, value in row.items()}
        for row in json.loads(table.to_json(orient="records", double_precision=15))
    ]
    for row in rows:
        row["failure"] = json.loads(row["failure"]) if row["failure"] else None
    return {"sweep": output, "replays": len(rows), "rows": rows}
