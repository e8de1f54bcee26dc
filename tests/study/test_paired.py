"""Comparing two policies: by hand on small tables, what fits, and the interval."""

import math

import numpy as np
import pandas as pd
import pytest

import coopsim
from coopsim.base.types import CoopsimError


def table(*traces: str, seed: int = 0) -> pd.DataFrame:
    """At 60 % both fit, and `a` costs 5 points less in t0, 1 in t1; at 40 % only `b`, and neither at one neighbour."""
    rows = []
    for t, trace in enumerate(traces):
        for k, budget in enumerate((590, 600, 610)):
            b = 1.30 + 0.01 * k
            rows.append((trace, "a", 0.6, budget, "ok", b - (0.05, 0.01)[t % 2]))
            rows.append((trace, "b", 0.6, budget, "ok", b))
        rows += [(trace, "a", 0.4, n, "oom", None) for n in (390, 400)]
        rows += [(trace, "b", 0.4, 390, "thrash", None), (trace, "b", 0.4, 400, "ok", 1.9)]
    columns = ("trace", "policy", "band_center", "budget_bytes", "outcome", "overhead")
    return pd.DataFrame(rows, columns=columns).sample(frac=1, random_state=seed)


def test_differences_are_paired_and_what_fits_is_counted() -> None:
    found = coopsim.compare(table("t0", "t1"), "a", "b")
    assert found.difference == pytest.approx(-3)
    assert (found.overhead_first, found.overhead_second) == (pytest.approx(28), pytest.approx(31))
    assert (found.both, found.only_first, found.only_second, found.neither) == (6, 0, 2, 2)
    by_trace = found.traces.set_index("trace")
    assert by_trace.difference["t0"] == pytest.approx(-5)
    assert by_trace.difference["t1"] == pytest.approx(-1)
    assert (found.low, found.high) == (pytest.approx(-5), pytest.approx(-1)), "of two traces, either twice"
    turned = coopsim.compare(table("t0", "t1"), "b", "a")
    assert (turned.difference, turned.only_first) == (pytest.approx(3), 2)
    for said in (
        "a against b",
        "both fit    6 of 10 replays, in 2 of 2 traces",
        "-3.00 points",
        "a 6, b 8",
        "b 2; neither: 2",
    ):
        assert said in str(found)
    assert "<table>" in found._repr_html_()


def test_a_replay_in_two_tables_counts_once() -> None:
    once = table("t0", "t1")
    twice = pd.concat([once, once[once.policy == "b"]])
    assert coopsim.compare(twice, "a", "b") == coopsim.compare(once, "a", "b")


def test_each_trace_counts_alike_and_each_budget_in_it() -> None:
    """t0 has one more budget than the other trace, and a band there of one."""
    more = pd.DataFrame(
        [("t0", p, 0.8, 800, "ok", cost) for p, cost in (("a", 1.1), ("b", 1.0))],
        columns=("trace", "policy", "band_center", "budget_bytes", "outcome", "overhead"),
    )
    found = coopsim.compare(pd.concat([table("t0", "t1"), more]), "a", "b")
    assert found.difference == pytest.approx(((-5 + 10) / 2 - 1) / 2)


def test_the_interval_is_the_same_again_and_holds_what_it_should() -> None:
    """With 12 traces of known differences: near the normal approximation of their mean."""
    rng = np.random.default_rng(1)
    rows = []
    for t in range(12):
        of_trace = rng.normal(2, 1)
        for k in range(5):
            rows.append((f"t{t}", "b", 0.5, 500 + k, "ok", 1.5))
            rows.append((f"t{t}", "a", 0.5, 500 + k, "ok", 1.5 + (of_trace + rng.normal(0, 0.5)) / 100))
    df = pd.DataFrame(rows, columns=("trace", "policy", "band_center", "budget_bytes", "outcome", "overhead"))
    found = coopsim.compare(df, "a", "b")
    again = coopsim.compare(df.sample(frac=1, random_state=3).sort_values(["trace", "budget_bytes"]), "a", "b")
    assert (found.low, found.high) == (coopsim.compare(df, "a", "b").low, coopsim.compare(df, "a", "b").high)
    assert again.difference == pytest.approx(found.difference)
    error = found.traces.difference.std() / math.sqrt(12)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.25)
    assert coopsim.compare(df, "a", "b", confidence=0.5).high < found.high


def test_what_cannot_be_compared() -> None:
    df = table("t0")
    none = coopsim.compare(df[df.band_center == 0.4], "a", "b")
    assert math.isnan(none.difference)
    assert (none.both, none.only_second) == (0, 1)
    assert "both fit    0 of 2" in str(none)
    assert "points" not in str(none)
    assert "of 1 trace, it says little of others" in str(coopsim.compare(df, "a", "b"))
    for args, said in (
        (("a", "c"), "unknown policy 'c'"),
        (("a", "a"), "with itself"),
        (("a", "b", 2.0), "confidence"),
    ):
        with pytest.raises(CoopsimError, match=said):
            coopsim.compare(df, *args[:2], confidence=(*args, 0.9)[2])
    two_links = pd.concat([df[df.policy == "b"], *(df[df.policy == "a"].assign(link=n) for n in ("x", "y"))])
    with pytest.raises(CoopsimError, match=r"a is in the table with link x and link y; choose one: table\[table.link"):
        coopsim.compare(two_links, "a", "b")
    both = pd.concat([df.assign(steps=n) for n in (1, 2)])
    assert coopsim.compare(both, "a", "b").both == 6
    seeds = pd.concat([df[df.policy == "b"].assign(seed=0), *(df[df.policy == "a"].assign(seed=n) for n in (0, 1))])
    assert coopsim.compare(seeds, "a", "b").both == 6, "each repetition beside the one replay"
    with pytest.raises(CoopsimError, match="no trace and budget in common"):
        coopsim.compare(pd.concat([df[df.policy == "a"], df[df.policy == "b"].assign(trace="t1")]), "a", "b")
    less = df[(df.policy == "a") | (df.budget_bytes != 600)]
    assert (coopsim.compare(df, "a", "b").unpaired, coopsim.compare(less, "a", "b").unpaired) == (0, 1)
    assert "left out    1 replay of one policy" in str(coopsim.compare(less, "a", "b"))


def test_on_a_sweep() -> None:
    swept = coopsim.sweep(["synth:unet:4", "synth:chain:8"], ["coop", "lru"], "90%:50%:20%", band=3, steps=1)
    found = coopsim.compare(swept, "coop", "lru")
    assert found.both + found.only_first + found.only_second + found.neither == len(swept) // 2
    assert found.low <= found.difference <= found.high
    assert len(coopsim.bands(swept)) == 2 * 2 * 3
