"""The storages of a step, as they are found again, and the calls that made their contents."""

from tests.conftest import Runner

IMPORT = """
import torch
from coopsim.live.cells import Call, Cell, Cells
storage = lambda n=64: torch.UntypedStorage(n)
"""


def test_a_storage_at_a_freed_one_s_address_is_another(child: Runner) -> None:
    text = """
cells, first = Cells(), storage()
cell, key = cells.of(first), first._cdata
again = cells.of(first) is cell
del first
others = [storage() for _ in range(64)]
reused = [one for one in others if one._cdata == key]
answer([again, [cells.known(one) is None for one in reused], len(cells.all), cell.ref() is None])
"""
    again, unknown, n, freed = child(IMPORT + text)
    assert again
    assert all(unknown)
    assert (n, freed) == (1, True)


def test_cells_of_a_plan_are_taken_over(child: Runner) -> None:
    """All are of the step; those whose storage exists are found by it; those that a call made may be evicted."""
    text = """
there, made = storage(), storage()
before = [Cell(there), Cell(made), Cell(None, 64)]
Call(None, (), {}).has_made([before[1]], [(before[1], 0)], 1)
cells = Cells()
live = cells.adopt(before)
numbers = lambda found: [before.index(cell) for cell in found]
answer([numbers(live), numbers(cells.all), numbers(cells.made), cells.known(there) is before[0]])
"""
    assert child(IMPORT + text) == [[0, 1], [0, 1, 2], [1], True]


def test_a_call_makes_versions(child: Runner) -> None:
    """As it was followed by plan: it costs the bytes that it read and wrote, those of a changed storage twice."""
    text = """
kept = [storage(8), storage(16)]
cells = dict(enumerate(map(Cell, kept)))
call = Call(None, (), {}, reads=[(cells[0], 0), (cells[1], 0)])
call.made([-1, 1], [(1, 1)], cells)
answer([call.cost, cells[1].makers == {1: call}, call.results == [None, cells[1]]])
"""
    assert child(IMPORT + text) == [40, True, True]


def test_a_pinned_storage_stays_pinned_after_a_copy(child: Runner) -> None:
    text = """
found, kept = [], [storage(), storage()]
for cell in map(Cell, kept):
    if not found: cell.pin()
    with cell.in_place(): inside = cell.pinned
    found.append([inside, cell.pinned])
answer(found)
"""
    assert child(IMPORT + text) == [[True, True], [True, False]]
