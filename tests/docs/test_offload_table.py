"""The table of live's offload is that of the committed data, which says what the page says of it."""

import csv
import statistics
import sys

import pytest

from experiments.common.pages import read_section
from tests.conftest import ROOT

Rows = list[dict[str, str]]
TABLES = ("offload", "offload_arena")


def rows(table: str) -> Rows:
    return list(csv.DictReader((ROOT / f"experiments/expected/live/{table}.csv").open(encoding="utf-8")))


def overheads(*pair: dict[str, str]) -> list[float]:
    return [float(row["predicted_overhead"]) - 1 for row in pair if row["fits"] == "True"]


def test_the_page_has_the_table_of_the_data(monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "experiments" / "live"), *sys.path])
    import offload_arena

    made = offload_arena.table(rows("offload_arena"))
    assert read_section("offload in an arena").strip() == made.strip()


@pytest.mark.parametrize("table", TABLES)
def test_offload_costs_no_more_and_budgets_hold(table: str) -> None:
    known = rows(table)
    for alone, copied in zip(known[::2], known[1::2], strict=True):
        assert alone["how"] == "recompute"
        assert copied["how"] == "offload"
        both = overheads(alone, copied)
        assert both == sorted(both, reverse=True)
        for row in (alone, copied):
            assert row["fits"] != "True" or int(row["reserved_bytes"]) <= int(row["budget_bytes"])


def test_what_offload_saves_at_30_percent_on_the_slower_card() -> None:
    known = [r for r in rows("offload_arena") if (r["card"], r["share"]) == ("rtx-3060", "30")]
    pairs = [overheads(*pair) for pair in zip(known[::2], known[1::2], strict=True)]
    saved = [1 - copied / alone for alone, copied in (pair for pair in pairs if len(pair) == 2)]
    assert len(saved) >= 4
    assert statistics.median(saved) >= 0.35
