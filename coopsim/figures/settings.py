"""What a figure was made with, in a line: the card, its precision, the steps, the allocator."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from coopsim.schedule import Schedule
    from coopsim.trace import Trace

GREY = "#444444"


def of_trace(trace: "Trace") -> str:
    """The card for which the trace was recorded, and the precision: "a100-80gb, tf32"; "" if it says neither."""
    return ", ".join(_card(trace.header))


def of_schedule(schedule: "Schedule", trace: "Trace") -> str:
    """The same, and steps and allocator of a replay: "a100-80gb, tf32, 10 steps, arena"."""
    h = schedule.header
    return ", ".join([*_card(trace.header), *_steps(h.get("steps")), str(h.get("allocator", ""))]).strip(", ")


def of_table(df: "pd.DataFrame") -> str:
    """The same of the table of a sweep or of a map: what all its rows share; the rest is in the legend or titles."""

    def one(column: str) -> Any:
        values: Any = df[column].dropna().unique() if column in df.columns else []
        return values[0] if len(values) == 1 else None

    words = [*_card({key: one(key) for key in ("card", "precision")}), *_steps(one("steps")), one("allocator") or ""]
    words += [f"torch {one('torch')}"] if one("torch") else []
    words += [str(one("alloc_conf"))] if one("alloc_conf") else []
    return ", ".join(filter(None, words))


def _card(header: Mapping[str, Any]) -> list[str]:
    return [str(header[key]) for key in ("card", "precision") if header.get(key)]


def _steps(n: Any) -> list[str]:
    return [] if n is None else [f"{int(n)} step{'' if int(n) == 1 else 's'}"]
