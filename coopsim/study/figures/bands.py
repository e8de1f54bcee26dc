"""From the rows of a sweep to what a curve shows: a band at each nominal memory ratio, never a lone point."""

from typing import TYPE_CHECKING, Literal, NamedTuple

from coopsim.base.types import CoopsimError, Outcome
from coopsim.study.grouping import Grouping, grouping

if TYPE_CHECKING:
    import pandas as pd

_NEEDED = ("trace", "policy", "outcome", "steps", "band_center", "overhead", "fragmentation_rate", "search_visits")


class Band(NamedTuple):
    """One nominal memory ratio of one curve. The values are over the neighbouring budgets that ran and have one."""

    ratio: float
    points: int  #: neighbouring budgets that were tried
    fits: int  #: of them, those that ran to the end
    mean: float  #: NaN if none ran, or if none has a value (no search, no fragmentation)
    low: float
    high: float


class Series(NamedTuple):
    """One curve: a policy, under one setting of what else varies in the table (empty if nothing does)."""

    policy: str
    variant: str


def check(df: "pd.DataFrame") -> "pd.DataFrame":
    """The table, if it is a sweep's and has rows; CoopsimError if not."""
    absent = [column for column in _NEEDED if column not in df.columns]
    if absent:
        raise CoopsimError(f"not the table of a sweep (columns missing: {', '.join(absent)})")
    if df.empty:
        raise CoopsimError("the sweep's table has no rows")
    return df


def series(df: "pd.DataFrame | Grouping") -> "dict[Series, pd.DataFrame]":
    """The rows of each curve. A setting that takes several values for one trace makes a curve of its own for each."""
    found = df if isinstance(df, Grouping) else grouping(df)
    divided = found.groups("policy", *found.varying)
    return {Series(str(s["policy"]), found.variant(s)): rows for s, rows in divided}


def bands(rows: "pd.DataFrame", values: "pd.Series[float]", spread: Literal["range", "std"]) -> list[Band]:
    """The bands of one curve, smallest ratio first. spread: `range` (least to greatest) or `std` (deviation)."""
    found = []
    for ratio, group in rows.groupby("band_center", sort=True, observed=True):
        fits = group.index[group["outcome"] == Outcome.OK]
        known = values.loc[fits].dropna()
        mean = float(known.mean())
        if spread == "std":
            deviation = float(known.std(ddof=0))
            low, high = mean - deviation, mean + deviation
        else:
            low, high = float(known.min()), float(known.max())
        found.append(Band(float(ratio), len(group), len(fits), mean, low, high))  # type: ignore[arg-type]
    return found
