"""Numbers that pages repeat in running text are those of the committed data, on whatever page they stand."""

import re
from collections.abc import Callable

import pandas as pd
import pytest

from experiments.common.pages import every, read_section
from experiments.gpu import peaks
from tests.conftest import ROOT

EXPECTED = ROOT / "experiments" / "expected"
Numbers = tuple[float, ...]


def networks() -> Numbers:
    return (len(list((ROOT / "traces").glob("*.parquet"))),)


def live_predicts() -> Numbers:
    table = pd.read_csv(EXPECTED / "live" / "time.csv")
    of_plans = table[table.policy != "checkpoint"]
    off = (of_plans.predicted_percent - of_plans.measured_percent).abs()
    return len(of_plans), round(off.median(), 1), round(off.max(), 1)


def remedies() -> Numbers:
    """Each of which was applied, and trains."""
    found = pd.concat([pd.read_csv(file) for file in sorted((EXPECTED / "fit").glob("*.csv"))])
    assert (found.applied == "ok").all()
    return (len(found),)


def saved() -> Numbers:
    """By Foresight, as the row of all networks has it."""
    (row,) = (line for line in read_section("policy sums").splitlines() if "| **all**" in line)
    _, foresight = (float(p) for p in re.findall(r"\(-([\d.]+) %\)", row)[:2])
    return (round(foresight),)


def on_the_real_allocator() -> Numbers:
    fits = pd.read_csv(EXPECTED / "against.csv").assign(ok=lambda t: t.caching == "ok").groupby("policy").ok
    n = fits.sum()
    assert n["thrift"] == n["foresight"]
    return n["coop"], int(fits.size().iloc[0]), n["thrift"], n["dte-oneflow"], n["dtr-oneflow"]


def readings() -> pd.DataFrame:
    table = pd.read_csv(EXPECTED / "published.csv")
    return table[table.kind == "reading"]


def kinds_of_readings() -> Numbers:
    attention = int((readings().source == "attention_wedsonlin").sum())
    return attention, len(readings()) - attention


def equal_peaks() -> Numbers:
    rows = peaks.load(ROOT / "experiments" / "gpu" / "results" / "nvidia-h100-80gb-hbm3-2026-11-26")
    return sum(map(peaks.equal, rows)), len(rows)


#: How a page may say a number, and where that number comes from.
FACTS: dict[str, Callable[[], Numbers]] = {
    r"\b(3\d) networks\b(?! \(all but)": networks,
    r"\b(\d+) cases\b.{0,150}?([\d.]+) points (?:off )?in the median,.{0,15}? ([\d.]+) at most": live_predicts,
    r"\b[Aa]ll (\d+) remedies\b": remedies,
    r"\b(?:Foresight|it) has (\d+) % less overhead": saved,
    r"\b(\d+) of (\d+) budgets\. Thrift and Foresight fit (\d+), DTE (\d+), DTR (\d+)": on_the_real_allocator,
    r"\b(\d+) readings; 20 runs\b": lambda: (len(readings()),),
    r"\b(8\d) within 0\.1 %": lambda: (int((readings().error_percent.abs() < 0.1).sum()),),
    r"\b(\d+) of attention(?: and|,) (\d+) other peaks\b": kinds_of_readings,
    r"\b(\d+) of (109)\b": equal_peaks,
}


def said(pattern: str, text: str) -> list[Numbers]:
    """The numbers of every match in a text, which may be wrapped anywhere."""
    return [tuple(float(group) for group in found.groups()) for found in re.finditer(pattern, " ".join(text.split()))]


@pytest.mark.parametrize("pattern", FACTS)
def test_pages_say_what_the_data_say(pattern: str) -> None:
    true = tuple(float(number) for number in FACTS[pattern]())
    found = [(page.name, numbers) for page in every() for numbers in said(pattern, page.read_text(encoding="utf-8"))]
    assert found, "no page says it: drop the pattern, or let it know the new words"
    assert [(page, numbers) for page, numbers in found if numbers != true] == [], true


def test_a_wrong_number_would_be_found() -> None:
    assert said(next(iter(FACTS)), "over 38\nnetworks, and on 36 networks (all but one)") == [(38.0,)]
    assert said(list(FACTS)[-1], "85 of 109 peaks") == [(85.0, 109.0)]
