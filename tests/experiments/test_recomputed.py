"""What policies recompute: the parts add up to what another experiment has counted, and can be made again."""

from collections.abc import Callable
from types import ModuleType

import pandas as pd
import pytest

from coopsim.trace import load
from tests.conftest import ROOT

HERE = ROOT / "experiments"


@pytest.fixture
def recomputed(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("experiments.paper.recomputed")


def test_parts_add_up(recomputed: ModuleType) -> None:
    """bounds.py counts a third iteration as three less two, this one row by row."""
    bounds = pd.read_csv(recomputed.BOUNDS)
    bounds = bounds[bounds.memory_ratio == recomputed.RATIO].set_index("trace")
    sums = pd.read_csv(recomputed.EXPECTED / "recomputed.csv").groupby(["trace", "policy"]).share.sum()
    compared = 0
    for trace in recomputed.MODELS:
        for policy in set(recomputed.POLICIES) & set(bounds.columns):
            overhead = bounds.loc[trace, policy]
            if (trace, policy) in sums:  # else not all ten iterations fit
                assert 1 + sums[trace, policy] == pytest.approx(overhead, abs=1e-5)
                compared += 1
    assert compared > 20


def test_rows_are_made_again(recomputed: ModuleType) -> None:
    bounds = pd.read_csv(recomputed.BOUNDS)
    (cell,) = bounds[(bounds.trace == "unet") & (bounds.memory_ratio == recomputed.RATIO)].itertuples()
    table = pd.read_csv(recomputed.EXPECTED / "recomputed.csv")
    wanted = table[table.trace == "unet"].drop(columns="trace").reset_index(drop=True)
    found = pd.DataFrame(recomputed.rows(load(HERE.parent / "traces" / "unet.parquet"), cell.budget_bytes))
    pd.testing.assert_frame_equal(found, wanted, check_exact=False, atol=1e-6)
