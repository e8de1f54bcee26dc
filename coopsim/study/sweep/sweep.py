"""A sweep: every point of a grid; and its table, or that of a map, a row a replay."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from coopsim.simulate.metrics import OF_COPIES, SUMMARY_KEYS
from coopsim.simulate.options import COLUMNS
from coopsim.study.sweep import own
from coopsim.study.sweep.grid import Grid, Point
from coopsim.study.sweep.journal import SWEEP_VERSION, Journal, Row, key
from coopsim.study.sweep.run import run
from coopsim.study.sweep.workers import Workers
from coopsim.version import __version__

# Columns that may be empty throughout, which must not lose their type for that.
_TYPES = dict.fromkeys(
    ("overhead", "fragmentation_rate", "fragmentation_rate_incl", "external_fragmentation"), "float64"
)
OnRow = Callable[[int, int], None]


_TYPES |= dict.fromkeys(("torch", "alloc_conf", "driver", "failure"), "string")
_TYPES |= dict.fromkeys(("peak_reserved_bytes", "alloc_retries"), "Int64")
_TYPES |= dict.fromkeys(OF_COPIES, "Int64") | {"link": "string", "host_bandwidth": "float64"}
_TYPES |= dict.fromkeys(("planned_steps", "planning_ns", "lost_cost_ns"), "Int64")
_ASKED = ("trace_file", "trace_hash", "peak_without_eviction_bytes", "card", "precision")


def _parameters(of_points: list[dict[str, Any]], taken: Mapping[str, Any]) -> dict[str, Any]:
    """A column for each parameter of a user's policies, empty where a policy has none of that name."""
    import pandas as pd

    found = {}
    for name in dict.fromkeys(name for given in of_points for name in given):
        column = pd.Series([given.get(name) for given in of_points], dtype=object)
        if len({type(value) for value in column if value is not None}) > 1:
            column = column.map(lambda value: None if value is None else str(value))
        found[f"{name}_" if name in taken else name] = column.convert_dtypes()
    return found


def write(
    points: Sequence[Point],
    rows: Mapping[str, Row],
    output: str | Path,
    header: dict[str, Any],
    *,
    more: Sequence[str] = (),
) -> Any:
    """Write the rows of the points, in their order. Returns the table as a pandas DataFrame.

    header: what to say in the file's metadata. more: attributes of points that become columns.
    """
    import pandas as pd
    import pyarrow as pa

    from coopsim.trace.file import write_parquet

    columns: dict[str, list[Any]] = {k: [rows[p.id][k] for p in points] for k in SUMMARY_KEYS}
    called = own.shown({p.setting.policy: p.setting.given is None for p in points})
    columns["trace"] = [p.setting.trace for p in points]
    columns |= {c: [getattr(p.setting.options, n) for p in points] for n, c in COLUMNS.items() if c not in columns}
    columns["policy"] = [called[p.setting.policy] for p in points]
    columns["memory_ratio"] = [p.budget_bytes / p.setting.peak_without_eviction_bytes for p in points]
    columns |= {k: [getattr(p.setting, k) for p in points] for k in _ASKED}
    columns |= _parameters([dict(p.setting.parameters) for p in points], columns)
    columns |= {k: [getattr(p, k) for p in points] for k in ("budget", "band_center", *more)}
    table = pd.DataFrame(columns).astype(_TYPES)
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    about = {"sweep_version": SWEEP_VERSION, "coopsim": __version__} | header
    arrow = arrow.replace_schema_metadata(
        {**(arrow.schema.metadata or {}), b"coopsim": json.dumps(about, sort_keys=True, default=list).encode()}
    )
    write_parquet(arrow, output)
    return table


def sweep(
    grid: Grid, output: str | Path, executor: Executor | Workers | None = None, on_row: OnRow | None = None
) -> Any:
    """Run the grid and write `output` (Parquet, a row a replay). Returns the table as a pandas DataFrame.

    executor: where replays run; Workers can be replaced when one is lost, an Executor of the caller's cannot; None: in
    this process. on_row(done, total) is called as rows come in, first with what a journal already held. Raises
    CoopsimError if the journal beside `output` belongs to another grid.
    """
    points = grid.points()
    name = key(points, list(dict.fromkeys(p.setting for p in points)))
    with Journal(Path(f"{output}.journal"), name) as journal:
        own.note_unknown({p.setting.policy: p.setting.unknown for p in points}, goes_on=bool(journal.rows))
        run(points, grid.by_hash, journal, executor, on_row)
        table = write(points, journal.rows, output, {"key": name, "options": dict(grid.options), "band": grid.band})
        journal.remove()
    return table
