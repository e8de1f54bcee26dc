"""Budgets as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coopsim.base import budget
from coopsim.base.types import CoopsimError


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("123456B", 123456),
        ("1KiB", 1024),
        ("1.5 MiB", 3 << 19),
        ("6GiB", 6 << 30),
        ("60%", 600),
        ("100%", 1000),
        ("24GB", 24 * 10**9),
        ("0.5 KB", 500),
        ("1TB", 10**12),
    ],
)
def test_amounts(text: str, nbytes: int) -> None:
    assert budget.parse(text, peak_bytes=1000) == nbytes


@pytest.mark.parametrize(
    "text", ["", "6", "60", "-1GiB", "0B", "0%", "6gib", "6 Gb", "6G", "1e400%", "nan%", "1,5GiB", "9999999999TiB"]
)
def test_refused(text: str) -> None:
    with pytest.raises(CoopsimError):
        budget.parse(text, peak_bytes=1000)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("24gb", "--memory '24gb' has an unknown unit; did you mean GB?"),
        ("24G", "did you mean GiB?"),
        ("24", "--memory '24' has no unit"),
        ("60%", "--memory '60%' is a share"),
        ("0B", "--memory must be between"),
    ],
)
def test_the_option_is_named(text: str, says: str) -> None:
    with pytest.raises(CoopsimError) as e:
        budget.parse(text, None, "--memory")
    assert says in str(e.value)


def test_ranges_run_both_ways_and_include_both_ends() -> None:
    assert budget.parse_list("100%:70%:10%") == ["100%", "90%", "80%", "70%"]
    assert budget.parse_list("10%:11%:0.5%,6GiB") == ["10%", "10.5%", "11%", "6GiB"]


@pytest.mark.parametrize("text", ["1:2:3", "10%:20%", "10%:20%:0%", "10%:20%:-1%", "a%:b%:c%", "0%:100%:0.00001%"])
def test_ranges_refused(text: str) -> None:
    with pytest.raises(CoopsimError):
        budget.parse_list(text)


@given(st.integers(1, 1 << 38), st.integers(0, 1 << 38))
def test_memory_fraction_gives_the_limit_whether_cut_or_rounded(limit: int, more: int) -> None:
    total = limit + 1 + more
    told = budget.memory_fraction(limit, total) * float(total)
    assert int(told) == round(told) == limit
