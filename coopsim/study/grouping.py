"""Which rows of a sweep's or a map's table belong together: those that differ in nothing but their budget.

Tables, figures and pages all group by this, so that nothing is averaged that differs in a setting. A setting is what
the options of replays and the allocators declare, the trace by its content hash, and whatever other column tells apart
two rows that agree in all of these.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from coopsim.base.text import apart, said
from coopsim.base.types import CoopsimError
from coopsim.simulate.metrics import RESULTS, SETTINGS, WALL_CLOCK_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

_TRACE = ("trace", "trace_hash", "card", "precision")  #: columns that name a trace
_BUDGET = ("budget_bytes", "memory_ratio", "band_center", "budget", "refined", "peak_without_eviction_bytes")


class Grouping(NamedTuple):
    """A table whose traces each have a label of their own, and what varies among the lines of one trace."""

    table: "pd.DataFrame"
    varying: list[str]  #: columns, beside trace and policy

    def groups(self, *by: str) -> "Iterator[tuple[dict[str, Any], pd.DataFrame]]":
        """Rows that agree in these columns, in the order of the table; None for what does not apply."""
        import pandas as pd

        names = list(dict.fromkeys(name for name in by if name in self.table.columns))
        for key, group in self.table.groupby(names, sort=False, dropna=False, observed=True):
            none_for_nan = (None if pd.isna(value) else value for value in key)  # type: ignore[call-overload]
            yield dict(zip(names, none_for_nan, strict=True)), group

    def variant(self, setting: Any, *without: str) -> str:
        """What varies, in words; empty if nothing does."""
        return ", ".join(filter(None, (said(c, setting[c]) for c in self.varying if c not in without)))


def grouping(df: "pd.DataFrame") -> Grouping:
    """How a table divides. CoopsimError where rows of one setting and budget disagree: no column says what differs."""
    table = _with_own_labels(df)
    known = [c for c in ("trace", "policy", *SETTINGS) if c in table.columns]
    settings = [*known[2:], *_others(table, known)]
    table = table[~table.duplicated([*_cell(table, known), *settings])]  # one replay, of two tables put together
    varying: list[str] = []
    for column in settings:
        lines = table.groupby(["trace", "policy", *varying], dropna=False, observed=True)
        if (lines[column].nunique(dropna=False) > 1).any():
            varying.append(column)
    return Grouping(_with_what_differs(table, [c for c in settings if c not in varying]), varying)


def _cell(table: "pd.DataFrame", known: Sequence[str]) -> list[str]:
    """The columns that name a replay, as far as we know them."""
    return [*known, *(c for c in ("band_center", "budget_bytes", "memory_ratio") if c in table.columns)]


def _others(table: "pd.DataFrame", known: Sequence[str]) -> list[str]:
    """Columns that we know nothing of, such as a run's name, which tell apart rows that agree in all that we know."""
    key = _cell(table, known)
    same = table[table.duplicated(key, keep=False)]
    found: list[str] = []
    for column in table.columns:
        if column not in {*key, *RESULTS, *_TRACE, *_BUDGET, "trace_file"} and len(same):
            groups = same.groupby([*key, *found], dropna=False, observed=True)
            if (groups[column].nunique(dropna=False) > 1).any():
                found.append(column)
    results = [c for c in RESULTS if c in table.columns and c not in (*WALL_CLOCK_COLUMNS, "failure")]
    for group, rows in same.groupby([*key, *found], dropna=False, observed=True) if len(same) else ():
        differ = [c for c in results if rows[c].nunique(dropna=False) > 1]
        if differ:
            at = dict(zip([*key, *found], group, strict=True))
            where = [str(at["trace"]), str(at["policy"]), said("budget_bytes", at.get("budget_bytes"))]
            raise CoopsimError(
                f"rows of one setting and budget differ in {differ[0]}, and no column says why ({', '.join(where)}); "
                "give each part of the table a column that does"
            )
    return found


def _with_own_labels(df: "pd.DataFrame") -> "pd.DataFrame":
    """The table, where no two traces have one label: each is named by what differs, then by its file, its hash."""
    traces = df[[c for c in (*_TRACE, "trace_file") if c in df.columns]]
    identity = [c for c in _TRACE if c in df.columns]
    kinds = traces.drop_duplicates(identity)
    if len(kinds) == kinds["trace"].nunique():
        return df
    facts = [
        {
            "card": kind.get("card"),
            "precision": kind.get("precision"),
            "file": str(kind.get("trace_file") or "").removesuffix(".parquet"),
            "hash": str(kind.get("trace_hash")).removeprefix("blake2b:")[:8],
        }
        for kind in kinds.to_dict("records")
    ]
    named = kinds.assign(_named=apart(kinds["trace"].astype(str).tolist(), facts))
    return df.assign(trace=df[identity].merge(named, "left", identity)["_named"].to_numpy())


def _with_what_differs(table: "pd.DataFrame", settings: Sequence[str]) -> "pd.DataFrame":
    """The table, where what is one for each trace, but not for all, stands beside the trace's label."""
    kinds = table.drop_duplicates("trace")
    differ = [
        c
        for c in settings
        if kinds[c].nunique(dropna=False) > 1
        and not kinds[c].astype(str).str.endswith("'s").any()  # the link of the trace's own card
        and table.groupby("trace", observed=True)[c].nunique(dropna=False).max() == 1
    ]
    if not differ:
        return table
    own = {}
    for kind in kinds.to_dict("records"):
        words = ", ".join(filter(None, (said(c, kind[c]) for c in differ)))
        named_so = str(kind["trace"]).endswith(words)
        own[kind["trace"]] = kind["trace"] if named_so else f"{kind['trace']}, {words}"
    return table.assign(trace=table["trace"].map(own))
