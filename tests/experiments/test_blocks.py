"""Checkpointed steps made from a plain trace, beside those that were recorded with `torch.utils.checkpoint`."""

from collections.abc import Callable
from types import ModuleType

import pandas as pd
import pytest

from coopsim.trace import load
from coopsim.trace.measure import peak_bytes
from tests.conftest import ROOT

RECORDED = pd.read_csv(ROOT / "experiments" / "expected" / "checkpointing.csv")
DEPTHS = {"bert-large": 1, "gpt-2": 1, "swin-t": 2, "resnet-50": 2}  #: of numbers in the names of blocks


@pytest.mark.parametrize("model", DEPTHS)
def test_equal_to_recorded_ones(script: Callable[[str], ModuleType], model: str) -> None:
    """To the byte at the peak, to the nanosecond in cost; the plain step comes out as it was."""
    blocks = script("experiments.checkpointing.blocks")
    plain = load(ROOT / "traces" / f"{model}.parquet")
    runs = blocks.levels(plain)[DEPTHS[model]]
    rows = RECORDED[(RECORDED.trace == model) & (RECORDED.what == "checkpointing")]
    assert len(rows) == 5
    for row in rows.itertuples():
        trace = blocks.checkpointed(plain, runs[: int(row.blocks)])
        assert peak_bytes(trace, 512) == row.live_bytes, f"{row.blocks} blocks"
        assert int(trace.cost_ns.sum()) == row.cost_ns, f"{row.blocks} blocks"


def test_calls_of_one_module_in_a_row_are_blocks_of_their_own(script: Callable[[str], ModuleType]) -> None:
    """ALBERT calls the same layer twelve times."""
    blocks = script("experiments.checkpointing.blocks")
    found = blocks.levels(load(ROOT / "traces" / "albert-base.parquet"))
    assert [len(runs) for runs in found.values()] == [12, 12]
