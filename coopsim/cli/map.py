"""coopsim map T… [-o M]: replay every budget of a fine grid, and print the smallest safe budgets."""

import argparse
import json
from typing import TYPE_CHECKING, Any

from coopsim.base.progress import note, watch
from coopsim.base.text import count
from coopsim.cli import grid

if TYPE_CHECKING:
    from coopsim.study.sweep import Scan
    from coopsim.study.tables import Feasibility, Tried


def run(args: argparse.Namespace) -> int:
    from coopsim.study import tables
    from coopsim.study.sweep import Scan, grid_file
    from coopsim.study.sweep.feasibility_map import feasibility_map

    with grid.table(args) as output:
        wanted, other = grid.of(args, grid_file.MAP_KEYS)
        asked = grid.SCAN | other
        scan = Scan(asked["largest"], asked["smallest"], asked["step"], asked["fine"])
        where = grid.workers(args, wanted, len(wanted.settings()) * (scan.units // scan.per_step + 1))
        with watch("replays") as report:
            table = feasibility_map(wanted, scan, output, where, report)
    if args.json:
        print(json.dumps(_object(args.output, scan, table), indent=1))
    else:
        print(tables.feasible_text(table))
    refined = f"{count(len(table), 'replay')}, {int(table.refined.sum())} of them where the outcome changes"
    note(f"wrote {args.output}: {refined}" if args.output else f"{refined}; -o keeps the table")
    return 0


def _object(output: str | None, scan: "Scan", table: Any) -> dict[str, Any]:
    from coopsim.study import tables

    settings = [setting | _answer(found) for setting, found in tables.feasible(table)]
    counts = {"replays": len(table), "refined": int(table.refined.sum())}
    return {"map": output, **scan.described(), **counts, "settings": settings}


def _answer(found: "Feasibility") -> dict[str, Any]:
    def budget(tried: "Tried | None") -> dict[str, Any] | None:
        return tried and {"budget_bytes": tried.budget_bytes, "memory_ratio": tried.memory_ratio}

    failing = [
        {"from": budget(h.least), "to": budget(h.greatest), "outcomes": list(h.outcomes), "points": h.points}
        for h in found.failing
    ]
    edges = {"safe": budget(found.safe), "smallest": budget(found.smallest)}
    return {"points": found.points, **edges, "failing": failing}
