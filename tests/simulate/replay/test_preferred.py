"""Where values belong: cost classes by hand, and the shares of memory that they get."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from coopsim.base.types import InPlace, Pinning
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.new_state import new_state
from coopsim.simulate.planning.lower import lower
from coopsim.simulate.planning.program import cost_classes, octave
from coopsim.simulate.replay import preferred
from coopsim.trace.synth import make as synth

UNIT = 512
# Not compiled: each would be once more in machine code.
preferred_address, note, end_step = (
    getattr(f, "py_func", f) for f in (preferred.preferred_address, preferred.note, preferred.end_step)
)


def test_octaves_grow_with_the_cost_a_byte() -> None:
    """Eight to a doubling; the same for the same cost per byte, up to the 1 that keeps free ops apart."""
    costs = [10**6 * 2 ** (k / 8) for k in range(33)]
    found = [octave(int(c), 4096) for c in costs]
    assert all(a <= b <= a + 2 for a, b in pairwise(found))
    assert found[-1] - found[0] == 32
    assert octave(10**6, 4096) == octave(10**9, 4096 * 1000)
    assert octave(0, 10**12) >= 0


def test_a_cost_class_is_an_octave_and_a_name() -> None:
    names = ["mul", "mm", "mul", "add", "mul"]
    found = cost_classes(names, [1000, 90_000, 4000, 1000, 1_000], [512, 512, 2048, 512, 1024])
    assert found.tolist() == [2, 3, 2, 1, 0]  # the last costs half as much a byte; of one octave, add before mul


def _state(budget: int, classes_of: list[int], units: list[int]) -> s.State:
    """Values of one chain, side by side, as if they could all be evicted; their cost classes and bytes as given."""
    program = lower(synth("synth:chain:8"), in_place=InPlace.RECOMPUTABLE, pinning=Pinning.SOUND, granule=UNIT)
    state = new_state(program, np.zeros(9, np.int64), budget, 0)
    for v, (cost_class, n) in enumerate(zip(classes_of, units, strict=True)):
        state.V[v, [s.COST_CLASS, s.BYTES, s.EVICTABLE]] = cost_class, n * UNIT, 1
        state.P[v, s.VALUE] = v
    return replace(state, cost_classes=np.full((max(classes_of) + 1, s.CC_COLUMNS), [0.0, 0.0, 0.0, s.NO_ADDRESS]))


def test_the_most_expensive_lie_lowest_each_class_over_its_share() -> None:
    """Grade 0 costs most to lose, as what it is made from is gone; 2 costs less than 1; nothing of 3 could be lost."""
    state = _state(100 * UNIT, [0, 1, 1, 2, 3], [1, 1, 2, 3, 1])
    for _ in range(2):  # the mean of the steps, which are alike
        for v, loss in enumerate([900.0, 100.0, 200.0, 150.0, -1.0]):
            note(state, v, loss)
        end_step(state)
        # of 8 units: 3 the lowest eighth, then 0, 1 (3 units), 2 (3 units); addresses in the middles
        assert state.cost_classes[:, s.CC_ADDRESS].tolist() == [n / 16 * 100 * UNIT for n in (3, 7, 13, 1)]
    assert not state.K[s.K_FEW]
    assert preferred_address(state, 0) == int(3 / 16 * 100) * UNIT
    assert preferred_address(state, 2) == int(7 / 16 * 100) // 2 * 2 * UNIT  # a multiple of its bytes


def test_classes_that_cost_the_same_lie_in_the_order_of_their_numbers() -> None:
    state = _state(100 * UNIT, [0, 1, 2], [1, 1, 1])
    for v in range(3):
        note(state, v, 7.0)
    end_step(state)
    assert np.argsort(state.cost_classes[:, s.CC_ADDRESS]).tolist() == [2, 1, 0]


def test_large_values_and_classes_never_passed_have_no_preferred_address() -> None:
    state = _state(96 * UNIT, [0, 1, 2], [3, 4, 1])
    assert preferred_address(state, 0) == s.NO_ADDRESS  # before a step has ended
    note(state, 0, 1.0)
    note(state, 1, 1.0)
    end_step(state)
    assert preferred_address(state, 0) != s.NO_ADDRESS
    assert preferred_address(state, 1) == s.NO_ADDRESS  # more than a thirty-second
    assert preferred_address(state, 2) == s.NO_ADDRESS  # never passed


def test_where_large_values_have_most_bytes_nothing_has_a_preferred_address() -> None:
    """Sixty percent is not yet too much."""
    for small, few in [(8, False), (7, True)]:
        state = _state(320 * UNIT, [0, 1], [small, 12])
        note(state, 0, 1.0)
        note(state, 1, 1.0)
        end_step(state)
        assert bool(state.K[s.K_FEW]) == few


def test_what_cannot_be_evicted_is_not_noted() -> None:
    state = _state(100 * UNIT, [0, 0], [1, 1])
    state.V[1, s.EVICTABLE] = 0
    note(state, 0, 5.0)
    note(state, 1, -1.0)
    assert state.cost_classes[0, s.CC_BYTES] == state.cost_classes[0, s.CC_LOSABLE] == UNIT
    assert state.cost_classes[0, s.CC_LOSS] == 5.0
