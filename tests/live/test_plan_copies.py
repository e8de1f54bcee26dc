"""Which copies of a schedule are of use, and where they lie on the host."""

from coopsim.base.types import Action
from coopsim.live.actions import copies_of

READS = [[(0, 0)], [(1, 0)], [(0, 0)], [(1, 0)]]


def rows(*actions: tuple[Action, int, int]) -> list[tuple[int, ...]]:
    """(action, op, storage), each of version 0 and 1000 bytes."""
    return [(action, 0, op, storage, 0, 0, 1000, 0, 0) for action, op, storage in actions]


def test_a_value_goes_and_comes_back() -> None:
    found = copies_of(rows(
        (Action.COMPUTE, 0, -1), (Action.OFFLOAD, 1, 0), (Action.COMPUTE, 1, -1), (Action.EVICT, 2, 0),
        (Action.FETCH, 2, 0), (Action.COMPUTE, 2, -1), (Action.FREE, 2, 0),
    ), READS)  # fmt: skip
    assert (found.offloads, found.leaves, found.arrives, found.nbytes) == ({1: 0}, {3}, {5: [(0, 0)]}, 1024)


def test_what_does_not_leave_or_is_not_fetched_is_not_copied() -> None:
    """The first is dropped while it is here; the second is dropped while it is away, so that it may as well go."""
    found = copies_of(rows(
        (Action.OFFLOAD, 0, 0), (Action.DISCARD, 1, 0), (Action.FREE, 1, 0),
        (Action.OFFLOAD, 1, 1), (Action.EVICT, 1, 1), (Action.DISCARD, 2, 1),
    ), READS)  # fmt: skip
    assert (found.offloads, found.leaves, found.arrives, found.nbytes) == ({}, set(), {}, 0)


def test_places_are_kept_until_what_is_fetched_has_arrived() -> None:
    """The second copy begins after the first is fetched and before it is used: it needs a place of its own."""
    one = [(Action.OFFLOAD, 0, 0), (Action.EVICT, 0, 0), (Action.FETCH, 1, 0)]
    two = [(Action.OFFLOAD, 1, 1), (Action.EVICT, 1, 1), (Action.FETCH, 3, 1), (Action.COMPUTE, 3, -1)]
    used = (Action.COMPUTE, 2, -1)
    assert copies_of(rows(*one, *two, used), READS).nbytes == 2048
    assert copies_of(rows(*one, used, *two), READS).nbytes == 1024


def test_what_is_away_at_the_end_stays_on_the_host() -> None:
    found = copies_of(rows((Action.OFFLOAD, 0, 0), (Action.EVICT, 1, 0), (Action.COMPUTE, 3, -1)), READS)
    assert (found.offloads, found.leaves, found.nbytes) == ({0: 0}, {1}, 1024)
