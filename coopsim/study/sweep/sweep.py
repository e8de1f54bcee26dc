"""A sweep: every point of a grid."""

from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from coopsim.study.sweep import own
from coopsim.study.sweep.grid import Grid
from coopsim.study.sweep.journal import Journal, key
from coopsim.study.sweep.run import run
from coopsim.study.sweep.table import write
from coopsim.study.sweep.workers import Workers

OnRow = Callable[[int, int], None]


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
