"""Where values belong: grades by hand, and the shares of memory that they get."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from coopsim.kernel import state as s
from coopsim.replay import homes
from coopsim.replay.grades import grades, octave
from coopsim.replay.program import lower
from coopsim.trace.synth import make as synth
from coopsim.types import InPlace, Pinning

UNIT = 512
# Not compiled: each would be once more in machine code.
find_home: Any = getattr(homes.find_home, "py_func", homes.find_home)
end_step: Any = getattr(homes.end_step, "py_func", homes.end_step)


def test_octaves_grow_with_the_cost_a_byte() -> None:
    """Eight to a doubling; the same for the same cost a byte, up to the 1 that keeps free ops apart."""
    costs = [10**6 * 2 ** (k / 8) for k in range(33)]
    found = [octave(int(c), 4096) for c in costs]
    assert all(a <= b <= a + 2 for a, b in pairwise(found))
    assert found[-1] - found[0] == 32
    assert octave(10**6, 4096) == octave(10**9, 4096 * 1000)
    assert octave(0, 10**12) >= 0


def test_a_grade_is_an_octave_and_a_name() -> None:
    names = ["mul", "mm", "mul", "add", "mul"]
    found = grades(names, [1000, 90_000, 4000, 1000, 1_000], [512, 512, 2048, 512, 1024])
    assert found.tolist() == [2, 3, 2, 1, 0]  # the last costs half as much a byte; of one octave, add before mul


def _state(budget: int) -> s.State:
    """Values of one chain; their grades and bytes are set by the tests."""
    program = lower(synth("synth:chain:8"), in_place=InPlace.RECOMPUTABLE, pinning=Pinning.SOUND, granule=UNIT)
    state = s.new_state(program, np.zeros(9, np.int64), budget, 0)
    state.V[:, s.BYTES] = UNIT
    return replace(state, G=np.zeros((4, 3), np.int64))  # three grades, and a row for all


def test_each_grade_gets_its_share_of_memory() -> None:
    """Two steps of which a quarter is cheap, half dear, a quarter dearest: the cheapest lies highest."""
    state = _state(100 * UNIT)
    of_grade = [0, 1, 1, 2]
    for _ in range(2):
        for v, grade in enumerate(of_grade):
            state.V[v, s.GRADE] = grade
            find_home(state, v)
        ends = state.V[:4, s.HOME].tolist()
        end_step(state)
    assert state.K[s.K_GRADED] == 2
    assert ends == [100 * UNIT, 75 * UNIT, 50 * UNIT, 25 * UNIT]
    for grade, where in [(0, 100), (1, 75), (2, 25), (2, 0), (2, 0)]:  # the last is more than ever
        state.V[0, s.GRADE] = grade
        find_home(state, 0)
        assert state.V[0, s.HOME] == where * UNIT


def test_before_a_step_has_ended_and_for_the_large_two_ends_serve() -> None:
    """High what is no dearer than the cheapest tenth, else low."""
    state = _state(100 * UNIT)
    found = []
    for grade, units in [(1, 1), (0, 1), (1, 1), (2, 1), (0, 1)]:
        state.V[0, [s.GRADE, s.BYTES]] = grade, units * UNIT
        find_home(state, 0)
        found.append(int(state.V[0, s.HOME]))
    assert found == [s.HIGH_END, s.HIGH_END, s.LOW_END, s.LOW_END, s.HIGH_END]
    end_step(state)
    for units, at_home in [(3, True), (4, False)]:
        state.V[0, [s.GRADE, s.BYTES]] = 2, units * UNIT
        find_home(state, 0)
        assert (state.V[0, s.HOME] >= 0) == at_home
        assert state.V[0, s.HOME] % (units * UNIT) == 0 if at_home else state.V[0, s.HOME] == s.LOW_END
