"""Bands and smallest budgets from a sweep's table: results are chaotic in the budget, so no figure stands alone."""

from collections.abc import Iterator, Mapping
from typing import Any

from coopsim.feasibility import Feasibility, Tried, feasibility

_SETTING = ["trace", "policy", "allocator"]
_LEGEND = "mean±spread over the budgets of a band that fit; (2/3): two of three did; -: none did"
_VARIANTS = ["torch", "alloc_conf", "steps", "cost_model", "random", "overhead_limit"]


def bands(df: Any) -> Any:
    """One row per setting and nominal memory ratio: how many neighbours ran; mean, spread, extremes.

    Figures are over the neighbours that ran. Spread is the standard deviation (of the population).
    """
    import pandas as pd

    rows = []
    for row, group in _groups(df, [*_SETTING, *_varying(df), "band_center"]):
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
    found = []
    for setting, group in _groups(df, [*_SETTING, *_VARIANTS]):
        tried = map(Tried, group.budget_bytes.tolist(), group.memory_ratio.tolist(), group.outcome.tolist())
        found.append((setting, feasibility(tried)))
    return found


def smallest_budgets(df: Any) -> Any:
    """`feasible` as a table: the smallest memory ratio that ran, the smallest safe one, what fails between."""
    import pandas as pd

    rows = []
    for setting, f in feasible(df):
        row = {name: setting[name] for name in [*_SETTING, *_varying(df)]}
        row["smallest"] = f.smallest.memory_ratio if f.smallest else float("nan")
        row["safe"] = f.safe.memory_ratio if f.safe else float("nan")
        rows.append(row | {"failing": len(f.failing), "points": f.points})
    return pd.DataFrame(rows)


def _varying(df: Any) -> list[str]:
    """What takes several values in the table."""
    return [c for c in _VARIANTS if c in df.columns and df[c].nunique(dropna=False) > 1]


def _groups(df: Any, by: list[str]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Rows that agree in these columns, in the order of the table; None for what does not apply."""
    import pandas as pd

    by = [name for name in by if name in df.columns]
    for key, group in df.groupby(by, sort=False, dropna=False):
        yield {name: None if pd.isna(value) else value for name, value in zip(by, key, strict=True)}, group


def feasible_text(df: Any) -> str:
    """`feasible` as tables: a line per setting, budgets in percent of the peak without eviction and in bytes."""
    from coopsim.text import human, table

    varying = _varying(df)
    parts: dict[str, list[list[str]]] = {}
    for setting, f in feasible(df):
        failing = ", ".join(
            f"{h.least.memory_ratio:.2%}"
            + (f" to {h.greatest.memory_ratio:.2%}" if h.points > 1 else "")
            + f" ({' or '.join(h.outcomes)})"
            for h in f.failing
        )
        row = [_label(setting, varying)]
        for edge, otherwise in ((f.safe, f.no_safe), (f.smallest, "never fits")):
            row += [f"{edge.memory_ratio:.2%}", human(edge.budget_bytes)] if edge else [otherwise, "-"]
        row.append(failing or "none")
        parts.setdefault(f"{setting['trace']}, {setting['allocator']}", []).append(row)
    header = ["policy", "smallest safe", "in memory", "smallest that fits", "in memory", "fails above that"]
    return "\n\n".join(f"{title}\n{table(header, rows)}" for title, rows in parts.items())


def _label(setting: Mapping[str, Any], varying: list[str]) -> str:
    """A policy, and what else varies in the table."""
    words = [f"{name} {setting[name]}" for name in varying if setting[name] is not None]
    return ", ".join([str(setting["policy"]), *words])


def text(df: Any) -> str:
    """The bands of a sweep as tables: a line per policy, a column per memory ratio.

    Overhead (in %) and fragmentation rate: `mean±spread (fits/points)`. Search: blocks visited per step, the mean.
    """
    from coopsim.text import table

    b, varying = bands(df), _varying(df)
    b["overhead"], b["overhead_spread"] = 100 * (b.overhead - 1), 100 * b.overhead_spread
    b["visits_per_step"] = b.search_visits / (b.steps if "steps" in varying else df.steps.iloc[0])
    parts = []
    for (trace, allocator), group in b.groupby(["trace", "allocator"], sort=False):
        ratios = sorted(group.band_center.unique(), reverse=True)
        for column, title, form in (
            ("overhead", "overhead (%)", "{:.1f}"),
            ("fragmentation_rate", "fragmentation rate", "{:.1%}"),
            ("visits_per_step", "blocks visited per step", "{:,.0f}"),
        ):
            rows = []
            for setting, line in _groups(group, ["policy", *varying]):
                cells = {r.band_center: r for r in line.itertuples()}
                rows.append([_label(setting, varying), *(_cell(cells.get(r), column, form) for r in ratios)])
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
