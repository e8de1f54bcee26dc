"""Training that offloads leaves the same bits as training without a budget.

On the CPU a copy is made at the latest moment at which it may end on a GPU (compare.LateEngines), so what may read or
overwrite bytes out of turn shows in the numbers.
"""

import pytest

from tests.conftest import Runner
from tests.live.names import NAMES, SELDOM_PLANNED

CALL = """
from tests.live.compare import FastHost, compare
answer({{name: compare(name, "75%", steps={steps}, offload=FastHost()) for name in {names!r}}})
"""
QUICK = ["convolutions"]
#: Steps whose plans recompute alone: what they could offload is used again at once.
SELDOM_OFFLOADED = SELDOM_PLANNED


def check(found: dict[str, dict[str, object]]) -> None:
    for name, report in found.items():
        assert report["same"], name
        if name in SELDOM_OFFLOADED:
            continue
        assert report["planned_steps"] >= 2, (name, report)
        assert report["offloads"] > 0, (name, report)
        assert report["offloaded_bytes"] >= report["host_bytes"] > 0, (name, report)
        assert report["peak_allocated_bytes"] <= report["budget_bytes"], (name, report)


def test_a_program_ends_with_the_same_bits(child: Runner) -> None:
    check(child(CALL.format(names=QUICK, steps=5)))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_programs_end_with_the_same_bits(child: Runner, part: int) -> None:
    """All programs of the tests of recomputation, with the observer."""
    check(child(CALL.format(names=NAMES[part::4], steps=7)))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_the_observer_does_what_python_does(child: Runner, part: int) -> None:
    """Without a C++ compiler Python follows alone, with the same bits."""
    names = ["convolutions", "transformer", "accumulated", "hooks", "own_kernel", "fused"][part::2]
    check(child(CALL.format(names=names, steps=5), CXX="/nowhere/c++"))


FAULTS = {
    "a stale copy": "LateEngines.begin = stale",
    "a fetch is not waited for": "LateEngines.wait = out_only",
    "memory goes before it is copied": "LateEngines.wait = back_only",
    "the area is reused too early": "actions._places = early",
}
PLANT = """
from dataclasses import replace
from coopsim.live import actions
from coopsim.live.copies import BACK, OUT
from coopsim.live.errors import LiveError
from tests.live.compare import FastHost, LateEngines, compare
begin, wait, places = own = LateEngines.begin, LateEngines.wait, actions._places
seen = set()
def stale(self, way, to, source):
    if way == OUT and to.data_ptr() in seen:
        source = to.clone()
    seen.add(to.data_ptr())
    return begin(self, way, to, source)
def out_only(self, way, end):
    if way == OUT: wait(self, way, end)
def back_only(self, way, end):
    if way == BACK: wait(self, way, end)
def early(copies):
    return places([replace(c, until=c.begins + 1) for c in copies])
def same():
    try:
        return compare("convolutions", "75%", steps=4, offload=FastHost())["same"]
    except (RuntimeError, LiveError):  # a copy of memory that is evicted
        return False
found = {}
for fault, plant in FAULTS.items():
    exec(plant)
    found[fault] = same()
    LateEngines.begin, LateEngines.wait, actions._places = own
answer(found | {"none": same()})
"""


@pytest.mark.slow
def test_planted_faults_show(child: Runner) -> None:
    assert child(f"FAULTS = {FAULTS!r}\n{PLANT}") == dict.fromkeys(FAULTS, False) | {"none": True}


def test_without_room_on_the_host_steps_recompute(child: Runner) -> None:
    """One line says why, and the plan is the one without copies."""
    text = """
from coopsim.live.copies import HostArea
from tests.live.compare import FastHost, compare
HostArea.reserve = lambda self, nbytes: "the host gives nothing"
found = compare("accumulated", "75%", steps=4, offload=FastHost())
HostArea.reserve = reserve
area = HostArea("cpu")
grown = area.reserve(512), bool(area.reserve(1 << 62)), area.nbytes
answer([found, compare("accumulated", "75%", steps=4, offload=FastHost(memory_bytes=1)), grown])
""".replace("HostArea.reserve = lambda", "reserve = HostArea.reserve\nHostArea.reserve = lambda")
    refused, tiny, grown = child(text)
    assert grown == ["", True, 512]  # earlier plans keep what they copy to
    for report in (refused, tiny):
        assert report["same"]
        assert (report["offloads"], report["host_bytes"]) == (0, 0)
        assert report["recomputes"] > 0
        assert report["planned_steps"] >= 2
    assert refused["no_offload"] == "the host gives nothing"
    assert tiny["no_offload"] == "recomputing alone is predicted to cost no more"
