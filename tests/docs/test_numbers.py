"""Numbers that pages repeat in running text are those of the committed data, and the same on every page."""

import re

import pandas as pd
import pytest

from tests.conftest import ROOT

EXPECTED = ROOT / "experiments" / "expected"


def text(page: str) -> str:
    """A page on one line, as it may be wrapped anywhere."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def test_how_many_networks_there_are() -> None:
    n = len(list((ROOT / "traces").glob("*.parquet")))
    for page in ("README.md", "docs/tour.md", "docs/policies.md"):
        assert set(re.findall(r"(\d+) networks", text(page))) == {str(n)}, page
    assert f"{n - 1} networks (all but `moe`" in text("docs/sensitivity.md")
    assert f"has all {n}" in text("docs/optimum.md")


@pytest.mark.parametrize("page", ["docs/live-measured.md", "docs/proven.md"])
def test_how_well_live_predicts(page: str) -> None:
    table = pd.read_csv(EXPECTED / "live" / "time.csv")
    of_plans = table[table.policy != "checkpoint"]
    off = (of_plans.predicted_percent - of_plans.measured_percent).abs()
    said = text(page)
    assert f"{len(of_plans)} cases" in said
    assert f"{off.median():.1f} points" in said
    assert re.search(rf"{off.max():.1f} at most", said)


def test_how_many_remedies_were_applied() -> None:
    tables = [pd.read_csv(file) for file in sorted((EXPECTED / "fit").glob("*.csv"))]
    found = pd.concat(tables)
    assert (found.applied == "ok").all()
    said = text("docs/fit-internals.md")
    assert f"All {len(found)} remedies found train" in said
    assert f"All {len(found)} remedies of the ten scripts" in said
    assert len(tables) == 10


def test_what_our_policies_save() -> None:
    """As the row of all networks has it."""
    row = next(line for line in (ROOT / "docs" / "policies.md").read_text("utf-8").splitlines() if "**all**" in line)
    thrift, foresight = (float(p) for p in re.findall(r"\(-([\d.]+) %\)", row)[:2])
    said = text("docs/policies.md")
    assert f"Foresight has {foresight:.0f} % less overhead" in said
    assert f"which knows only the past, {thrift:.1f} % less" in said
    assert f"it has {foresight:.0f} % less overhead in an arena" in text("README.md")


def test_how_often_policies_fit_on_the_real_allocator() -> None:
    fits = pd.read_csv(EXPECTED / "against.csv").assign(ok=lambda t: t.caching == "ok").groupby("policy").ok
    n, of = fits.sum(), int(fits.size().iloc[0])
    dte, dtr = n["dte-oneflow"], n["dtr-oneflow"]
    said = f"{n['coop']} of {of} budgets (Thrift and Foresight {n['thrift']}, DTE {dte}, DTR {dtr};"
    assert n["thrift"] == n["foresight"]
    assert said in text("docs/sensitivity.md")


def test_the_readings_of_cards_agree() -> None:
    table = pd.read_csv(EXPECTED / "published.csv")
    readings = table[table.kind == "reading"]
    attention = readings[readings.source == "attention_wedsonlin"]
    near = int((readings.error_percent.abs() < 0.1).sum())
    assert f"{len(readings)} readings" in text("README.md")
    assert f"{near} within 0.1 %" in text("README.md")
    others = len(readings) - len(attention)
    assert f"{len(attention)} of attention and {others} other peaks" in text("docs/accuracy.md")
    assert f"{len(attention)} of attention, {others} other peaks" in text("docs/proven.md")
