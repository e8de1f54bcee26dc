"""Tables beside our policies: sums over a table made by hand, and pages that say what is expected."""

import csv
from collections.abc import Callable
from types import ModuleType

import pandas as pd
import pytest

from tests.conftest import ROOT

HERE = ROOT / "experiments"


@pytest.fixture
def scripts(script: Callable[[str], ModuleType]) -> tuple[ModuleType, ModuleType]:
    """against.py and policies_text.py."""
    return script("experiments.allocators.against"), script("experiments.policies.text")


def cell(trace: str, ratio: float, **overheads: float) -> list[dict[str, object]]:
    """A row a policy: overhead in points, none if it fits no budget; half of 11 fit if it is negative."""
    rows = []
    overheads = {"foresight_offline": overheads.get("foresight")} | overheads
    for policy in ("dtr-oneflow", "dtr", "dtr-eq", "dte-oneflow", "coop", "thrift", "foresight", "foresight-offline"):
        points = overheads.get(policy.replace("-", "_"))
        fits = 0 if points is None else 5 if points < 0 else 11
        rows.append(
            {"trace": trace, "policy": policy, "band_center": ratio, "points": 11, "fits": fits, "search_visits": 10.0}
            | {"overhead": None if points is None else 1 + abs(points) / 100, "overhead_spread": 0.01}
            | {"fragmentation_rate": None if points is None else abs(points) / 500}
        )
    return rows


def test_sums_count_the_cells_where_all_fit(scripts: tuple[ModuleType, ModuleType]) -> None:
    """The best form of DTR counts; a cell in which one of the three or of ours misses a budget does not."""
    text = scripts[1]
    rows = cell("unet", 0.9, dtr_oneflow=30, dtr=8, dte_oneflow=12, coop=10, thrift=6, foresight=4, foresight_offline=3)
    rows += cell("unet", 0.8, dtr_eq=20, dte_oneflow=20, coop=12, thrift=15, foresight=12.5)
    rows += cell("unet", 0.7, dte_oneflow=20, coop=12, thrift=10, foresight=9)  # DTR fits nowhere
    rows += cell("unet", 0.6, dtr=20, dte_oneflow=20, coop=12, thrift=-10, foresight=9)  # Thrift in part
    rows += cell("moe", 0.9, dtr=20, dte_oneflow=20, coop=10, thrift=10, foresight=10)
    rows += cell("spos", 0.9, dtr=20, dte_oneflow=20, coop=10, thrift=5, foresight=5)
    rows += cell("vit-b", 0.9, dtr=20, dte_oneflow=20, coop=10, thrift=11, foresight=8)
    table = text.groups(pd.DataFrame(rows)).set_index("group")
    found = {name: [round(float(x), 6) for x in table.loc[name]] for name in table.index}
    assert found["the four tuned on"] == [2, 20, 21, 16.5, 15.5]
    assert found["not tuned on before DenseNet-121 was looked at"] == [1, 10, 10, 10, 10]
    assert found["not tuned on before ConvNeXt was looked at"] == [1, 10, 11, 8, 8]
    assert found["not tuned on before Whisper was looked at"] == [0, 0, 0, 0, 0]
    rows += cell("edsr", 0.9, dtr=20, dte_oneflow=20, coop=10, thrift=9, foresight=8)
    lines = text.sums(pd.DataFrame(rows)).split("\n")
    assert lines[2] == "| the eight reference models | 3 | 30.0 | 26.0 (-13.3 %) | 21.5 (-28.3 %) | 20.5 (-31.7 %) |"
    assert lines[3] == "| recorded last, not tuned on | 1 | 10.0 | 9.0 (-10.0 %) | 8.0 (-20.0 %) | 8.0 (-20.0 %) |"
    assert lines[4] == "| **all** | 6 | 60.0 | 56.0 (-6.7 %) | 47.5 (-20.8 %) | 46.5 (-22.5 %) |"
    but_moe = "| all but `moe`, whose plan offline is hindsight | 5 | 50.0 | 46.0 (-8.0 %) | 37.5 (-25.0 %) "
    assert lines[5] == but_moe + "| 36.5 (-27.0 %) |"
    lines = text.details(pd.DataFrame(rows)).split("\n")
    rate = "7 (at most"
    assert lines[2] == f"| Thrift | 1 | 1 | 1.00 (at most 1.00) | 2 of {rate} 3.0 %) |"
    assert lines[3] == f"| Foresight | 0 | 0 | 1.00 (at most 1.00) | 1 of {rate} 2.5 %) |"
    assert lines[5] == f"| Coop | - | - | 1 | 2 of {rate} 2.4 %) |"


def test_what_is_left_free_without_addresses(scripts: tuple[ModuleType, ModuleType]) -> None:
    """Cells that do not fit do not count."""
    rows = [("coop", 0.021), ("thrift", 0.008), ("coop", 0.018), ("thrift", None)]
    said = "above 2 %: Coop in 1 of 2 (at most 2.1 %), Thrift in none of 1."
    found = scripts[1].left_free(pd.DataFrame(rows, columns=["policy", "rate"]))
    assert found.endswith(said)


def test_a_policy_that_never_searches_has_no_fragmentation_rate(scripts: tuple[ModuleType, ModuleType]) -> None:
    rows = pd.DataFrame(cell("unet", 0.9, dtr=20, dte_oneflow=12, coop=10, thrift=6, foresight=4))
    rows.loc[rows.policy == "foresight-offline", "fragmentation_rate"] = None
    assert "| none of 1 (it never searches) |" in scripts[1].details(rows)


def test_pages_say_what_is_expected(script: Callable[[str], ModuleType]) -> None:
    from experiments.common.pages import read_section

    text = script("experiments.policies.text")
    table, left_free, elsewhere, by_group, gaps = (
        pd.read_csv(HERE / "expected" / f"{name}.csv")
        for name in ("policies", "policies-without-addresses", "policies-elsewhere", "policies-groups", "planned_gap")
    )
    pd.testing.assert_frame_equal(text.groups(table), by_group, atol=1e-4)
    assert read_section("policy sums").strip() == text.compared(table, left_free)
    assert read_section("policies elsewhere").strip() == text.elsewhere(elsewhere)
    assert read_section("planned gaps").strip() == script("experiments.optimum.planned_gap").markdown(gaps)
    copies = pd.read_csv(HERE / "expected" / "gap_copies.csv")
    assert read_section("gap copies").strip() == script("experiments.optimum.gap_copies").markdown(copies)


def test_the_page_says_what_is_expected_of_live(
    script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.common.pages import read_section

    monkeypatch.syspath_prepend(str(HERE / "live"))
    with (HERE / "expected" / "live" / "memory.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert read_section("live tables").strip() == script("memory_tables").table(rows)


def test_the_page_says_what_is_expected_of_the_real_allocator(scripts: tuple[ModuleType, ModuleType]) -> None:
    from experiments.common.pages import read_section

    assert read_section("against").strip() == scripts[0].text(pd.read_csv(HERE / "expected" / "against.csv")).strip()


@pytest.mark.parametrize("name", ["overhead", "policies"])
def test_tables_of_half_memory_agree(name: str) -> None:
    """The arena beside the real allocator, and each other table, hold the same replays."""
    arena = pd.read_csv(HERE / "expected" / "against.csv")
    arena = arena[arena.arena == "ok"].groupby(["trace", "policy"]).arena_overhead.agg(["count", "mean", "std"])
    table = pd.read_csv(HERE / "expected" / f"{name}.csv")
    table = table[table.band_center == 0.5].set_index(["trace", "policy"])
    both = [key for key in table.index if key in arena.index]
    assert len(both) >= 20
    for key in both:
        assert arena["count"][key] == table.fits[key], key
        assert arena["mean"][key] == pytest.approx(table.overhead[key], abs=2e-5), key
