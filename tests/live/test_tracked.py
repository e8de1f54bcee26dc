"""The storages of a step, as they are found again, and the calls that made their contents."""

from tests.conftest import Runner

IMPORT = """
import torch
from coopsim.live.tracked import Call, TrackedStorage, TrackedStorages
from tests.live.made_up import Op, plan, row
storage = lambda n=64: torch.UntypedStorage(n)
"""


def test_a_storage_at_a_freed_one_s_address_is_another(child: Runner) -> None:
    text = """
storages, first = TrackedStorages(), storage()
tracked, key = storages.of(first), first._cdata
again = storages.of(first) is tracked
del first
others = [storage() for _ in range(64)]
reused = [one for one in others if one._cdata == key]
answer([again, [storages.known(one) is None for one in reused], len(storages.all), tracked.ref() is None])
"""
    again, unknown, n, freed = child(IMPORT + text)
    assert again
    assert all(unknown)
    assert (n, freed) == (1, True)


def test_a_tensor_without_a_storage_has_none(child: Runner) -> None:
    """As those that a transform of torch.func wraps, which any list of the program's tensors may have."""
    text = """
storages, found = TrackedStorages(), []
torch.func.grad(lambda x: (found.append(storages.of_tensor(x)), x.sum())[1])(torch.ones(4))
found.append(storages.of_tensor(torch.eye(4).to_sparse()))
answer(found)
"""
    assert child(IMPORT + text) == [None, None]


def test_cells_of_a_plan_are_taken_over(child: Runner) -> None:
    """All are of the step; those whose storage exists are found by it, and there, with no other of that storage."""
    text = """
there, made = storage(), storage()
planned = [TrackedStorage(there), TrackedStorage(made), TrackedStorage(None, 64)]
storages = TrackedStorages()
known = [storages.of(there), *planned]
for one in planned: storages.enter(one)
numbers = lambda found: [known.index(tracked) for tracked in found]
answer([numbers(storages.there()), numbers(storages.all), storages.known(there) is planned[0]])
"""
    assert child(IMPORT + text) == [[1, 2], [0, 1, 2, 3], True]


def test_a_call_makes_versions(child: Runner) -> None:
    """As it was followed by plan."""
    text = """
kept = [storage(8), storage(16)]
storages = dict(enumerate(map(TrackedStorage, kept)))
call, made = Call(None, (), {}), row(Op(None, [0], [-1, 1], 0), makes=[(1, 1)])
call.by_plan(plan([made], range(2)), made, storages)
answer([storages[1].makers == {1: call}, call.results == [None, storages[1]], call.reads == [(storages[0], 0)]])
"""
    assert child(IMPORT + text) == [True] * 3


def test_a_pinned_storage_stays_pinned_after_a_copy(child: Runner) -> None:
    text = """
found, kept = [], [storage(), storage()]
for tracked in map(TrackedStorage, kept):
    if not found: tracked.pinned = True
    with tracked.in_place(): inside = tracked.pinned
    found.append([inside, tracked.pinned])
answer(found)
"""
    assert child(IMPORT + text) == [[True, True], [True, False]]
