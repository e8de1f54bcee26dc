"""The one value that holds a replay's options, and allocators as values."""

import pytest

from coopsim.base.types import CoopsimError, CostModel, RandomOps
from coopsim.simulate.allocators import ARENA, cuda_caching, find
from coopsim.simulate.options import ReplayOptions
from coopsim.simulate.replay import measure, record, replay
from coopsim.trace import Trace
from coopsim.trace.measure import peak_bytes


def test_words_become_what_they_name() -> None:
    options = ReplayOptions(3, "bytes", "keep", 2)
    assert options == ReplayOptions(3, CostModel.BYTES, RandomOps.KEEP, 2.0)
    assert options.as_dict() == {"steps": 3, "cost_model": "bytes", "random": "keep", "overhead_limit": 2.0} | {
        "seed": 0
    }
    assert type(options.as_dict()["cost_model"]) is str


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"steps": 0}, "steps: 0 is not a whole number"),
        ({"steps": True}, "steps: True"),
        ({"steps": 2.0}, "steps: 2.0"),
        ({"cost_model": "costs"}, "unknown cost_model 'costs'; did you mean cost"),
        ({"random": "drop"}, "unknown random 'drop'"),
        ({"overhead_limit": float("nan")}, "overhead_limit: nan"),
        ({"overhead_limit": 0.5}, "overhead_limit: 0.5"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(CoopsimError, match=said):
        ReplayOptions(**wrong)  # type: ignore[arg-type]


def test_an_allocator_is_a_name_or_a_value() -> None:
    assert find("arena") is ARENA
    assert find("cuda-caching") == cuda_caching()
    assert cuda_caching("2.12.1", "max_split_size_mb:32").conf == "max_split_size_mb:32"
    for torch, conf in (("1.0", ""), ("2.15.0", "max_split_size_mb:0")):
        with pytest.raises(CoopsimError):
            cuda_caching(torch, conf)


def test_budgets_are_as_on_the_command_line(bert: Trace) -> None:
    half = peak_bytes(bert, 512) // 2
    schedule = replay(bert, "coop", "50%", steps=1)
    assert schedule.header["budget_bytes"] == half // 512 * 512
    assert schedule.rows() == replay(bert, "coop", half, steps=1).rows()
    assert replay(bert, "coop", "16GiB", steps=1).header["budget_bytes"] == 16 << 30
    with pytest.raises(CoopsimError, match="has no unit"):
        replay(bert, "coop", "50")


def test_one_value_says_the_same_as_keywords(bert: Trace) -> None:
    options = ReplayOptions(2, cost_model="bytes", overhead_limit=1.5)
    recorded = record(bert, "dtr", "60%", options=options)
    assert recorded.header["cost_model"] == "bytes"
    assert recorded.rows() == replay(bert, "dtr", "60%", steps=2, cost_model="bytes", overhead_limit=1.5).rows()
    assert measure(bert, "dtr", "60%", options=options)["evictions"] == recorded.header["evictions"]
