"""Decisions in the shape of checkpointing: keep what crosses some narrow places, and make the rest again by segments.

A narrow place is an op after which few bytes of what was made before it are of use to what follows, up to the turn: the
op at which most would be resident. Between two such places nothing is kept over the turn. So each op before the turn
runs again once at most, and what is held for that is one segment's (Griewank's revolve; rotor and Rockmate choose among
such places by dynamic programming).
"""

from typing import Any

import numpy as np

from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.dry_run_state import DryRun, ProgramArrays
from coopsim.simulate.planning.request import LEAVE, LEAVE_ONCE, STAY

COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  #: of segments, to be tried


def crossing(D: ProgramArrays, turn: int) -> Any:
    """Of each op up to the turn, the bytes made until then that ops after it, up to the turn, use."""
    v, _, last = _used(D, turn)
    change = np.zeros(turn + 2, np.int64)
    np.add.at(change, D.V[v, s.PRODUCER], D.V[v, s.BYTES])
    np.add.at(change, last, -D.V[v, s.BYTES])
    return change.cumsum()[: turn + 1]


def narrow_places(D: ProgramArrays, turn: int, count: int) -> list[int]:
    """The ends of so many segments of about the same cost, each moved to where fewest bytes cross, near by."""
    held = crossing(D, turn)
    clock = D.O[: turn + 1, s.DECIDE].cumsum()
    found = []
    for k in range(1, count):
        low, high = (int(clock.searchsorted(clock[-1] * (k + part) / count)) for part in (-0.5, 0.5))
        window = held[low : max(high, low + 1)]
        found.append(low + int(window.argmin()))
    return sorted(set(found))


def decide(D: DryRun, turn: int, places: list[int], *, linger: bool) -> None:
    """Decisions for the intervals across the turn; all others are as they were.

    linger: what no op after the turn uses stays, once it was made again, until the last op that needs it for others.
    """
    v, at, last = _used(D, turn)
    kept = np.searchsorted(places, D.V[v, s.PRODUCER]) < np.searchsorted(places, last)
    leaves = np.where((at < D.V[v, s.USES_END]) | linger, LEAVE_ONCE, LEAVE)
    D.decisions[v + at] = np.where(kept, STAY, leaves)


def _used(D: ProgramArrays, turn: int) -> tuple[s.Array, s.Array, s.Array]:
    """What can be evicted and was made before the turn; where in D.uses its uses after the turn begin.

    And its last use up to there, or when it was made.
    """
    producer = D.V[:, s.PRODUCER]
    v = np.flatnonzero((D.V[:, s.EVICTABLE] != 0) & (producer >= 0) & (producer < turn))
    before = np.concatenate([[0], (D.uses <= turn).cumsum()])
    n = before[D.V[v, s.USES_END]] - before[D.V[v, s.USES]]
    at = D.V[v, s.USES] + n
    return v, at, np.where(n > 0, np.append(D.uses, 0)[at - 1], producer[v])
