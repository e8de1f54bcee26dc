"""The table of live's offload is that of the committed data, which says what the page says of it."""

import csv
import sys

from tests.conftest import ROOT

ROWS = list(csv.DictReader((ROOT / "experiments/expected/live/offload.csv").open(encoding="utf-8")))


def test_the_page_has_the_table_of_the_data(monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "experiments" / "live"), *sys.path])
    import offload

    assert offload.table(ROWS) in (ROOT / "docs" / "live-offload.md").read_text(encoding="utf-8")


def test_offload_costs_no_more_and_budgets_hold() -> None:
    """State goes only where nothing fits otherwise."""
    for alone, copied in zip(ROWS[::2], ROWS[1::2], strict=True):
        fits = [row for row in (alone, copied) if row["fits"] == "True"]
        assert alone["how"] == "recompute"
        assert copied["how"] == ("offload" if len(fits) == 2 else "offload, state too")
        overheads = [float(row["predicted_overhead"]) for row in fits]
        assert overheads == sorted(overheads, reverse=True)
        assert all(int(row["reserved_bytes"]) <= int(row["budget_bytes"]) for row in fits)
