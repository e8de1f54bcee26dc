"""Bands and smallest budgets from a sweep's table: results are chaotic in the budget, so no figure stands alone."""

from typing import Any


def bands(df: Any) -> Any:
    """One row per trace, policy, allocator and nominal memory ratio: how many neighbours ran; mean, spread, extremes.

    Figures are over the neighbours that ran. Spread is the standard deviation (of the population).
    """
    import pandas as pd

    rows = []
    for key, group in df.groupby(["trace", "policy", "allocator", "band_center"], sort=False):
        fits = group[group.outcome == "ok"]
        row = dict(zip(("trace", "policy", "allocator", "band_center"), key, strict=True))
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


def smallest_budgets(df: Any) -> Any:
    """Per trace and policy: the smallest memory ratio that ran, and the smallest from which every larger one did.

    Also the number of holes below that. Feasibility is not monotone in the budget, so only the second is safe to
    promise. A hole is a ratio that fails although a smaller one ran.
    """
    import pandas as pd

    rows = []
    for key, group in df.groupby(["trace", "policy", "allocator"], sort=False):
        group = group.sort_values("memory_ratio")
        ran = (group.outcome == "ok").to_numpy()
        ratio = group.memory_ratio.to_numpy()
        row = dict(zip(("trace", "policy", "allocator"), key, strict=True))
        failed = (~ran).nonzero()[0]
        first_safe = failed.max() + 1 if len(failed) else 0
        smallest = ratio[ran].min() if ran.any() else float("nan")
        rows.append(
            row
            | {
                "smallest": smallest,
                "safe": ratio[first_safe] if first_safe < len(ratio) else float("nan"),
                "holes": int((~ran & (ratio > smallest)).sum()),
                "points": len(ratio),
            }
        )
    return pd.DataFrame(rows)


def text(df: Any) -> str:
    """The bands of a sweep as tables: a line a policy, a column a memory ratio, `overhead±spread (fits/points)`."""
    from coopsim.text import table

    b = bands(df)
    parts = []
    for (trace, allocator), group in b.groupby(["trace", "allocator"], sort=False):
        ratios = sorted(group.band_center.unique(), reverse=True)
        for column, title, form in (
            ("overhead", "overhead", "{:.3f}"),
            ("fragmentation_rate", "fragmentation rate", "{:.1%}"),
        ):
            rows = []
            for policy, line in group.groupby("policy", sort=False):
                cells = {r.band_center: r for r in line.itertuples()}
                rows.append([policy, *(_cell(cells.get(r), column, form) for r in ratios)])
            header = [f"{title} at", *(f"{r:.0%}" for r in ratios)]
            parts.append(f"{trace}, {allocator}\n{table(header, rows)}")
    return "\n\n".join(parts)


def _cell(row: Any, column: str, form: str) -> str:
    if row is None or row.fits == 0:
        return "-"
    value = getattr(row, column)
    if value != value:
        return "none"  # nothing was evicted
    spread = f"±{form.format(getattr(row, column + '_spread'))}" if row.points > 1 else ""
    return form.format(value) + spread + (f" ({row.fits}/{row.points})" if row.fits < row.points else "")
