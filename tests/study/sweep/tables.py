"""What tests compare of a sweep's table, and interrupt a sweep with."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from coopsim.study.sweep import WALL_CLOCK_COLUMNS


def table(path: Path) -> pd.DataFrame:
    """What is in a sweep's file, wall-clock columns apart."""
    return pd.read_parquet(path).drop(columns=list(WALL_CLOCK_COLUMNS))


def when(moments: tuple[int, ...], what: Callable[[], None]) -> Callable[[int, int], None]:
    """Something that happens once so many rows are there."""
    left = list(moments)

    def on_row(done: int, _total: int) -> None:
        if left and done >= left[0]:
            left.pop(0)
            what()

    return on_row
