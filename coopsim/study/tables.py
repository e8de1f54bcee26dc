"""Bands and smallest budgets from a sweep's table: results are chaotic in the budget, so no figure stands alone."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from coopsim.base.types import Outcome
from coopsim.simulate.metrics import SETTINGS
from coopsim.study.grouping import Grouping, grouping

_SETTING = ("trace", "policy", "allocator")
_LEGEND = "mean±spread over the budgets of a band that fit; (2/3): two of three did; -: none did"


class Tried(NamedTuple):
    """One budget, and how the replay ended."""

    budget_bytes: int
    memory_ratio: float
    outcome: str


@dataclass(frozen=True)
class FailingRange:
    """Neighbouring budgets that fail although a smaller one fits: the least and the greatest of them, both included."""

    least: Tried
    greatest: Tried
    outcomes: tuple[str, ...]  #: that occur
    points: int


@dataclass(frozen=True)
class Feasibility:
    """What many budgets say of one setting. A budget that was not tried may differ from its neighbours."""

    points: int
    smallest: Tried | None  #: that fits at all
    safe: Tried | None  #: the smallest that fits and all larger ones with it; None if the largest does not fit
    failing: tuple[FailingRange, ...]  #: above the smallest, smallest budgets first

    @property
    def no_safe(self) -> str:
        """Why there is no safe budget, in words; empty if there is one."""
        if self.safe is not None:
            return ""
        return "never fits" if self.smallest is None else "largest fails"


def feasibility(tried: Iterable[Tried]) -> Feasibility:
    """The smallest budgets and the failing ranges above them: that one fits does not say that larger ones do.

    >>> found = feasibility(Tried(b, b / 10, "ok" if b in (4, 6, 7) else "oom") for b in range(3, 8))
    >>> found.smallest.budget_bytes, found.safe.budget_bytes, len(found.failing)
    (4, 6, 1)
    """
    points = sorted(tried)
    fits = [p for p in points if p.outcome == Outcome.OK]
    runs = [(ok, list(run)) for ok, run in groupby(points, lambda p: p.outcome == Outcome.OK)]
    failing = tuple(
        FailingRange(run[0], run[-1], tuple(sorted({p.outcome for p in run})), len(run))
        for ok, run in runs[1:]
        if not ok
    )
    safe = runs[-1][1][0] if runs and runs[-1][0] else None
    return Feasibility(len(points), fits[0] if fits else None, safe, failing)


def bands(df: Any) -> Any:
    """The table of a sweep by setting and nominal memory ratio: how many neighbouring budgets fit, and mean, spread,
    least and greatest over them.

    A row per trace (by its contents, under a label of its own), policy, allocator, whatever else varies in the table
    (a column each), and `band_center`. points: neighbours that were tried; fits: of them, those that ran to the end.
    Spread is the standard deviation (of the population). Overhead is a factor, 1.1 is 10 %. CoopsimError if rows of one
    setting and budget disagree.
    """
    import pandas as pd

    rows, found = [], grouping(df)
    for row, group in found.groups(*_SETTING, *found.varying, "band_center"):
        fits = group[group.outcome == "ok"]
        row |= {"points": len(group), "fits": len(fits)}
        for column in ("overhead", "fragmentation_rate", "fragmentation_rate_incl"):
            values = fits[column].dropna()
            row |= {
                column: values.mean(),
                f"{column}_spread": values.std(ddof=0),
                f"{column}_min": values.min(),
                f"{column}_max": values.max(),
            }
        for column in ("search_visits", "search_ns", "searches", "evictions", "recomputes"):
            row[column] = fits[column].mean()
        rows.append(row)
    return pd.DataFrame(rows)


def feasible(df: Any) -> list[tuple[dict[str, Any], Feasibility]]:
    """What the budgets of a map, or of a sweep, say of each setting: (what was replayed, which budgets are safe)."""
    found = grouping(df)
    return [(setting, _safe(group)) for setting, group in found.groups(*_SETTING, *SETTINGS, *found.varying)]


def _safe(rows: Any) -> Feasibility:
    columns = (rows[c].tolist() for c in ("budget_bytes", "memory_ratio", "outcome"))
    return feasibility(map(Tried, *columns))


def smallest_budgets(df: Any) -> Any:
    """`feasible` as a table: the smallest memory ratio that ran, the smallest safe one, what fails between."""
    import pandas as pd

    rows, varying = [], grouping(df).varying
    for setting, f in feasible(df):
        row = {name: setting[name] for name in dict.fromkeys((*_SETTING, *varying))}
        row["smallest"] = f.smallest.memory_ratio if f.smallest else float("nan")
        row["safe"] = f.safe.memory_ratio if f.safe else float("nan")
        rows.append(row | {"failing": len(f.failing), "points": f.points})
    return pd.DataFrame(rows)


def feasible_text(df: Any) -> str:
    """`feasible` as tables: a line per setting, budgets in percent of the peak without eviction and in bytes."""
    from coopsim.base.text import human, table

    found = grouping(df)
    parts: dict[str, list[list[str]]] = {}
    for setting, f in feasible(df):
        failing = ", ".join(
            f"{h.least.memory_ratio:.2%}"
            + (f" to {h.greatest.memory_ratio:.2%}" if h.points > 1 else "")
            + f" ({' or '.join(h.outcomes)})"
            for h in f.failing
        )
        row = [_label(found, setting)]
        for edge, otherwise in ((f.safe, f.no_safe), (f.smallest, "never fits")):
            row += [f"{edge.memory_ratio:.2%}", human(edge.budget_bytes)] if edge else [otherwise, "-"]
        row.append(failing or "none")
        parts.setdefault(f"{setting['trace']}, {setting['allocator']}", []).append(row)
    header = ["policy", "smallest safe", "in memory", "smallest that fits", "in memory", "fails above that"]
    return "\n\n".join(f"{title}\n{table(header, rows)}" for title, rows in parts.items())


def _label(found: Grouping, setting: Any) -> str:
    """A policy, and what else varies in the table; the allocator stands above."""
    return ", ".join(filter(None, (str(setting["policy"]), found.variant(setting, "allocator"))))


def text(df: Any) -> str:
    """The bands of a sweep as tables: a line per policy, a column per memory ratio.

    Overhead (in %) and fragmentation rate: `mean±spread (fits/points)`. Search: blocks visited per step, the mean.
    """
    from coopsim.base.text import table

    found = grouping(df)
    b = bands(df.assign(search_visits=df.search_visits / df.steps))
    b["overhead"], b["overhead_spread"] = 100 * (b.overhead - 1), 100 * b.overhead_spread
    parts = []
    for (trace, allocator), group in b.groupby(["trace", "allocator"], sort=False):
        ratios = sorted(group.band_center.unique(), reverse=True)
        for column, title, form in (
            ("overhead", "overhead (%)", "{:.1f}"),
            ("fragmentation_rate", "fragmentation rate", "{:.1%}"),
            ("search_visits", "blocks visited per step", "{:,.0f}"),
        ):
            rows = []
            for setting, line in found._replace(table=group).groups("policy", *found.varying):
                cells = {r.band_center: r for r in line.itertuples()}
                rows.append([_label(found, setting), *(_cell(cells.get(r), column, form) for r in ratios)])
            header = [f"{title} at", *(f"{r:.0%}" for r in ratios)]
            parts.append(f"{trace}, {allocator}\n{table(header, rows)}")
    return "\n\n".join([*parts, _LEGEND])


def _cell(row: Any, column: str, form: str) -> str:
    if row is None or row.fits == 0:
        return "-"
    value = getattr(row, column)
    if value != value:
        return "none"  # nothing was evicted
    spread = getattr(row, column + "_spread", None)
    spread = f"±{form.format(spread)}" if spread is not None and row.points > 1 else ""
    return form.format(value) + spread + (f" ({row.fits}/{row.points})" if row.fits < row.points else "")
