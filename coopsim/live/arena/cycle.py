"""Lifetimes of a step's requests in a cycle of equal steps. Knows no torch.

Blocks that exist when a step begins and are freed in it were allocated by the step before. Such a block is one item
with one address, whose lifetime wraps around. The cycle is cut at the start of the step, or where the last of these
blocks is freed, whichever has the lower bound on memory.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coopsim.live.arena.requests import TO_THE_END, Requests
from coopsim.simulate.packing.items import Items, lower_bound

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cycle:
    """The items of a cycle that need addresses.

    request: by item, the number of its request; -1 for a block from before the step that no request makes. left:
    (request, until) of the blocks that the next step begins with; `until` is the number of the request of that step
    before which they are freed.
    """

    items: Items
    request: Ints
    left: list[tuple[int, int]]


def cycle_of(asked: Requests) -> Cycle:
    """The cycle of a step's requests, as items with sizes and lifetimes but no addresses yet.

    Optimizer state that is made in the step and stays for good is left out.
    """
    n = len(asked.nbytes)
    ends: dict[int, list[int]] = defaultdict(list)
    for i in range(n):
        if asked.until[i] >= TO_THE_END and not asked.state[i]:
            ends[asked.nbytes[i]].append(i)
    left: list[tuple[int, int]] = []
    lone: list[tuple[int, int]] = []  # bytes, until: left by nobody that is known
    for nbytes, until in asked.initial:
        if ends[nbytes]:
            left.append((ends[nbytes].pop(0), until))
        else:
            lone.append((nbytes, until))
    cuts = {0, max((until for _, until in left), default=0)}
    return min((_cut(asked, left, lone, cut) for cut in sorted(cuts)), key=lambda cycle: lower_bound(cycle.items))


def _cut(asked: Requests, left: list[tuple[int, int]], lone: list[tuple[int, int]], cut: int) -> Cycle:
    n = len(asked.nbytes)
    end = cut + n
    goes = dict(left)
    rows = []  # bytes, from, until, request
    for i, nbytes in enumerate(asked.nbytes):
        stays = asked.until[i] >= TO_THE_END
        if stays and asked.state[i]:
            continue
        until = n + goes[i] if i in goes else end if stays else asked.until[i]
        start, until = (i + n, until + n) if i < cut and i not in goes else (i, until)
        rows.append((nbytes, start, until, i) if until <= end else (nbytes, cut, end, i))
    for nbytes, until in lone:
        start, until = (n, n + until) if until <= cut else (cut, end)
        rows.append((nbytes, start, until, -1))
    found = np.array(rows, np.int64).reshape(-1, 4)
    found[:, 2] = np.maximum(found[:, 2], found[:, 1] + 1)
    return Cycle(Items.of(found[:, 0], found[:, 1], found[:, 2]), found[:, 3], left)
