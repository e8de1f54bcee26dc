"""Random programs on three streams of the phantom GPU, against its own record of calls (happens_before.py)."""

from typing import Any

import pytest

from tests.conftest import Runner
from tests.live.happens_before import Checker

CHECK = """
import os, tempfile
from tests.live import streams_programs
from coopsim.live import streams
from coopsim.live.streams import Streams
{plant}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "log")
    streams_programs.redirect(path)
    found = streams_programs.{program}
answer(found)
"""


def run(child: Runner, first: int, last: int, plant: str = "") -> dict[str, Any]:
    program = f"check(path, range({first}, {last}))"
    found: dict[str, Any] = child(CHECK.format(plant=plant, program=program), COOPSIM_PHANTOM_LOG="1")
    assert found["plain"] == []
    return found


def check(found: dict[str, Any]) -> None:
    assert found["faults"] == []
    assert found["others"] == []
    assert all(n > 0 for n in found["counts"].values()), found


def test_random_programs(child: Runner) -> None:
    """Without a plan and by plan: all is ordered whatever the timing, with the values of a run without a budget."""
    check(run(child, 0, 3))


def test_another_stream_waits_for_what_the_observer_has_run_again(child: Runner) -> None:
    """A step leaves its plan there, and what the plan has brought back is not ready when it was made at first."""
    found = child(CHECK.format(plant="", program="leaving(path)"), COOPSIM_PHANTOM_LOG="1")
    assert found["no_observer"] == ""
    assert found["recomputes"] > 0
    assert found["deviated"].endswith("aten.add_.Tensor, runs on another stream")
    assert found["faults"] == []


@pytest.mark.parametrize("forgets", [False, True])
def test_another_stream_waits_in_the_next_step(child: Runner, *, forgets: bool) -> None:
    found = child(CHECK.format(plant="", program=f"next_step(path, forgets={forgets})"), COOPSIM_PHANTOM_LOG="1")
    assert bool(found) is forgets


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 300, 25))
def test_many_random_programs(child: Runner, first: int) -> None:
    check(run(child, first, first + 25))


FAULTS = {
    "what runs again or is copied does not wait": (0, "Streams._wait_for_all = lambda self, stream: None"),
    "nothing waits for what ran again": (2, "Streams._wait_for_again = lambda self, stream: None"),
    "copies are not waited for": (3, "Streams.wait = lambda self, way, end: None"),
    "one stream alone waits for copies": (3, "Streams.wait = lambda self, way, end: self.current().wait_event(end)"),
    "blocks are not guarded": (3, "streams._guard = lambda storage, stream: None"),
    "what is evicted is not guarded": (1, "Streams.guard = lambda self, storage, tracked: None"),
    "gradients go while autograd has them": (0, "Streams.needs = lambda self, tracked: False"),
    "spilling does not wait": (6, "Streams.finish = lambda self: None"),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wait_that_is_left_out_shows(child: Runner, fault: str) -> None:
    """In a program in which it matters."""
    seed, plant = FAULTS[fault]
    assert run(child, seed, seed + 1, plant)["faults"]


EVENT = ["phantom: cudaEventRecord(0x1, 0x10)", "phantom: cudaStreamWaitEvent((nil), 0x1)"]


@pytest.mark.parametrize(("between", "ordered"), [
    ([], False),
    (EVENT, True),
    (EVENT[1:], False),
    (["phantom: cudaEventRecord(0x1, (nil))", *EVENT[1:]], False),
    ([EVENT[0], "phantom: cudaEventQuery(0x1)"], True),
    ([EVENT[0], "phantom: cudaEventQuery(0x1): not ready"], False),
    (["phantom: cudaDeviceSynchronize()"], True),
])  # fmt: skip
def test_the_checker_tells_what_comes_before_what(between: list[str], *, ordered: bool) -> None:
    """What one stream writes, and the default one reads."""
    found = Checker().read(["op fill 16 - 0x1000:64", *between, "op neg 0 0x1000:64 0x2000:64"])
    assert (found.faults == []) is ordered
