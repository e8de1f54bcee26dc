"""Which values go to make room. Every search scores each value that may go once, in address order."""

import math
from collections.abc import Callable
from typing import Any

from tests.reference.values import Value

Score = Callable[[Value], float]
CanGo = Callable[[Value], bool]


def least(held: list[Value], score: Score, can_go: CanGo) -> list[Value]:
    """The value of least score, if that is finite; of several the first."""
    scores = [(score(v), i) for i, v in enumerate(held) if can_go(v)]
    best, i = min(scores, default=(math.inf, -1))
    return [held[i]] if best < math.inf else []


def window(
    blocks: list[list[Any]],
    nbytes: int,
    score: Score,
    can_go: CanGo,
    near_tie: Callable[[], None],
    *,
    thrifty: bool = False,
) -> list[Value]:
    """The values of the best run of neighbouring blocks, found by looking at all of them.

    Thrifty: the sum of scores is divided by the bytes, and no run is looked at that would do without its first block.
    """
    score_of = {v: score(v) for _, _, v in blocks if v is not None and can_go(v)}
    runs = []
    for first in range(len(blocks)):
        values: list[Value] = []
        size = 0
        for last, (_, n, held) in enumerate(blocks[first:], first):
            if held is not None and not can_go(held):
                break
            size += n
            values = values if held is None else [*values, held]
            if size >= nbytes and not (thrifty and size - blocks[first][1] >= nbytes):
                total = math.fsum(score_of[v] for v in values) / (size if thrifty else 1)
                runs.append((total, last, last - first, values))
    best = min(runs, default=None, key=lambda r: r[:3])
    if best is None:
        return []
    for total, _, _, values in runs:  # sums of doubles in another order may decide otherwise
        close = 0 < total < math.inf and math.isclose(total, best[0], rel_tol=1e-9)
        if close and (total != best[0] or (values != best[3] and len(values) + len(best[3]) > 2)):
            near_tie()
    return best[3]


def window_published(blocks: list[list[Any]], nbytes: int, score: Score, can_go: CanGo) -> list[Value]:
    """The loop of OneFlow's EvictAndFindPieceOnce, in its order of additions and with its quirks."""
    start = end = size = 0
    cost, least_cost = 0.0, math.inf
    best: list[list[Any]] = []
    scores: list[float] = []  # as they were added
    while end < len(blocks):
        if size < nbytes:
            _, n, held = blocks[end]
            if held is not None and not can_go(held):
                scores.append(math.nan)  # never read: the window starts behind it
                end += 1
                start, size, cost = end, 0, 0.0
                continue
            scores.append(0.0 if held is None else score(held))
            size += n
            cost += scores[end]
            end += 1
        else:
            size -= blocks[start][1]
            cost -= scores[start]
            start += 1
        if size >= nbytes and cost < least_cost:
            least_cost, best = cost, blocks[start:end]
    return [held for _, _, held in best if held is not None]
