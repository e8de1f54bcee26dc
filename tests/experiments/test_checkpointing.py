"""Plain checkpointing beside the policies: the page says what is expected, and the least memory is what it says."""

from collections.abc import Callable
from types import ModuleType

import pandas as pd
import pytest

from coopsim.base.types import Role
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.replay import measure
from coopsim.trace import TraceBuilder
from coopsim.trace.synth import make
from tests.conftest import ROOT

HERE = ROOT / "experiments"


@pytest.fixture
def checkpointing(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("experiments.checkpointing.compare")


def test_the_page_says_what_is_expected(checkpointing: ModuleType) -> None:
    from experiments.common.pages import read_section

    table = pd.read_csv(HERE / "expected" / "checkpointing.csv")
    assert read_section("checkpointing").strip() == checkpointing.markdown(table).strip()


def test_less_checkpointing_costs_less_and_needs_more() -> None:
    table = pd.read_csv(HERE / "expected" / "checkpointing.csv")
    for _, steps in table[table.what == "checkpointing"].groupby("trace"):
        assert len(steps) == 5
        assert steps.overhead.is_monotonic_increasing
        assert steps.memory_bytes.is_monotonic_decreasing
        assert steps.overhead.iloc[-1] < 1.4  # never more than one forward pass, a third of a step
        assert (steps.memory_bytes > steps.live_bytes).all()


def test_the_least_arena_needs_no_eviction_and_less_needs_some(checkpointing: ModuleType) -> None:
    trace = make("synth:unet:4")
    least = checkpointing.least_arena(trace)
    fits = measure(trace, "coop", least, options=ReplayOptions(3))
    assert (fits["outcome"], fits["evictions"]) == ("ok", 0)
    below = measure(trace, "coop", least - (1 << 20), options=ReplayOptions(3))
    assert below["outcome"] != "ok" or below["evictions"] > 0


def test_the_floor_is_what_the_largest_op_touches_and_the_parameters(checkpointing: ModuleType) -> None:
    b = TraceBuilder()
    weight = b.storage(1024, Role.PARAMETER, alive_at_start=True)
    x = b.storage(2048)
    y = b.storage(4096)
    z = b.storage(512)
    b.op("aten.relu.default", creates=[x], cost_ns=1)
    b.op("aten.mm.default", reads=[x, weight], creates=[y], temporaries=[512], cost_ns=1)
    b.op("aten.relu.default", reads=[y], creates=[z], cost_ns=1)
    for s in (x, y, z):
        b.free(s)
    assert checkpointing.floor(b.build({"model": "by hand"})) == 1024 + 2048 + 4096 + 512
