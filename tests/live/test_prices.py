"""Ops are timed by events: exactly, where the host is ahead; plans are made with these prices, and cost what they say.

The phantom's clock answers for the events, as a card does.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Runner
from tests.live.command import called

PROGRAM = str(Path(__file__).parent / "scripts" / "priced.py")
TIMED = """
import torch
from coopsim.record.observe.timing import StepTimes, empty_ns
from coopsim.phantom.control import Control
control, x = Control(), torch.ones(1000, device="cuda")
def op(ns, host_ns=0):
    control.op_begins()
    control.host_is_busy(host_ns)
    x.add_(1)
    control.op_ends(torch.cuda.current_stream().cuda_stream, ns)
before = torch.cuda.memory_stats()
times = StepTimes()
for number, ns in enumerate((3_000, 50_000, 1_000_000)): times.run(number, lambda: op(ns))
torch.cuda.synchronize()
times.run(3, lambda: op(7_000, 500_000))
with torch.cuda.stream(torch.cuda.Stream()): times.run(4, lambda: op(8_000))
times.run(5, lambda: op(8_000))
same = before == torch.cuda.memory_stats()
answer([empty_ns(), times.read(), same])
"""


def test_times_are_those_of_the_kernels_where_the_host_is_ahead(child: Runner) -> None:
    """Not where it launches half a millisecond late, nor from the first op on a second stream on. No memory is used."""
    assert child(TIMED) == [1_000, {"0": 3_000, "1": 50_000, "2": 1_000_000}, True]


def ran(*words: str) -> dict[str, Any]:
    done = called("phantom", "run", "--gpu", "h100-80gb", "--", "python", PROGRAM, *words)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[0]))


@pytest.mark.usefixtures("child")
@pytest.mark.slow
def test_a_plan_with_times_of_the_card_costs_less_and_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Than one by prices, to which attention seems to cost next to nothing."""
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    wrong, timed = ran(), ran("events")
    took = timed["took_ns"][-1]
    assert "events around" in timed["prices"]
    assert timed["predicted_ns"]["plain_gpu"] == pytest.approx(timed["plain_ns"], rel=0.001)
    assert timed["predicted_ns"]["planned_gpu"] == pytest.approx(took, rel=0.005)
    assert timed["step_ns"] == pytest.approx(took, rel=0.001)
    assert took < wrong["took_ns"][-1] - 0.05 * wrong["plain_ns"]
