"""Exact search: can these items be placed below a given height? After MiniMalloc (Moffitt, ASPLOS 2023), own code.

Any plan can be pushed down until each item rests on another or on the floor. Such a plan is found by placing items in
the order of their offsets, each as low as those already placed allow. The search does that, depth first, and turns back

- where a section cannot hold what it still has to: the lowest offset left in it + its bytes left > the height;
- from an offset at which another item, still to be placed, could lie below: it would have to be pushed down;
- from an item whose key (offset, number) is smaller than that of the one before: that order has been tried;
- past all choices in other sections: once no item left crosses a point in time, the two sides are searched one after
  the other, and if one fails, the choices in the other are not tried again.

With `jump` it also turns back past choices that have nothing to do with the failure: each failure has a stretch of
sections (the one that cannot hold its rest, or those of the item that does not fit), and a choice outside of the
stretches that failed below it is not varied. That is only a guess, as what lies in a stretch may rest on what lies
beside it. So a search that has jumped never says that nothing fits; but it is often done a hundred times sooner.

Items are tried from the lowest possible offset up, and those of one offset in the order in which they are given. The
work is counted in placements, never in seconds, so that the same input always gives the same answer.
"""

import numpy as np

from coopsim.kernel.jit import inlined, kernel
from coopsim.planner.exact_state import (
    AFTER,
    AT,
    CAND_END,
    CAND_NEXT,
    HIGHEST,
    HULL_A,
    HULL_B,
    ITEM,
    K_CAP,
    K_HULL_A,
    K_HULL_B,
    K_JUMP,
    K_LIMIT,
    K_PARTIAL,
    K_POOL,
    K_REGIONS,
    K_TRAIL,
    K_WAITING,
    K_WORK,
    LIST,
    LIST_END,
    LISTED,
    PARENT,
    POOL,
    R_A,
    R_AFTER,
    R_AT,
    R_B,
    R_LIST,
    R_LIST_END,
    R_NEXT,
    R_PARENT,
    REGIONS,
    REST,
    T_ITEM,
    T_LOW,
    TRAIL,
    A,
    B,
    State,
)
from coopsim.planner.items import Ints, Items
from coopsim.planner.regions import copied, split, wait, waits
from coopsim.planner.sections import Sections, count_pairs, most_alive

_MOST = 1 << 22  # rows of a list that is longer if everything overlaps

FAILED, FOUND, GAVE_UP = range(3)  #: nothing fits below that height; offsets are found; the work was used up


class Search:
    """Searches over the same items, given in any order and below any height."""

    def __init__(self, items: Items, found: Sections) -> None:
        n = len(items)
        self.items, self.sections = items, found
        self.left = most_alive(items.bytes, found)[0]
        ones = np.ones(n, np.int64)
        cut = Sections(found.first, found.last - 1, found.count)
        wide = found.last - found.first > 1
        self.crossing = np.zeros(found.count + 1, np.int64)
        np.add.at(self.crossing, cut.first[wide], ones[wide])
        np.add.at(self.crossing, cut.last[wide], -ones[wide])
        self.crossing = np.cumsum(self.crossing)[:-1]

    def below(self, height: int, order: Ints, limit: int, *, jump: bool = False) -> tuple[int, int, Ints, Ints]:
        """Place all items below `height`, tried in this order, with at most `limit` placements.

        With `jump`, failures are taken to be due to what overlaps them in time only: faster, but no proof of FAILED.
        Returns FAILED, FOUND or GAVE_UP; the placements made; the offsets (meaningless unless FOUND); the blame.
        """
        n, m = len(self.items), self.sections.count
        K = np.zeros(11, np.int64)
        K[K_CAP], K[K_LIMIT], K[K_JUMP], K[K_POOL] = height, limit, jump, n
        pool = np.empty(min(n * n, _MOST) + n, np.int64)
        pool[:n] = np.arange(n)
        state = State(
            nbytes=self.items.bytes[order],
            first=self.sections.first[order],
            last=self.sections.last[order],
            alignment=self.items.alignment[order],
            offset=np.full(n, -1),
            low=np.zeros(n, np.int64),
            blame=np.zeros(n, np.int64),
            left=self.left.copy(),
            crossing=self.crossing.copy(),
            low_one=np.zeros(m, np.int64),
            F=np.zeros((n + 1, 18), np.int64),
            R=np.zeros((n + m + 1, 8), np.int64),
            T=np.empty((count_pairs(self.sections) + 1, 2), np.int64),
            K=K,
            cand=np.empty(min(n * n, _MOST) + 2 * n, np.int64),
            pool=pool,
            part=np.zeros(m, np.int64),
            part_end=np.zeros(m + 2, np.int64),
        )
        outcome = int(_search(state))
        offset, blame = np.zeros(n, np.int64), np.zeros(n, np.int64)
        offset[order], blame[order] = state.offset, state.blame
        return outcome, int(K[K_WORK]), offset, blame


@kernel
def _search(s: State) -> int:
    """FAILED, FOUND or GAVE_UP; the offsets are in the state."""
    s.K[K_WAITING] = -1
    wait(s, 0, len(s.left), 0, len(s.low), 0, -1, -1)
    f = -1
    while s.K[K_WAITING] >= 0:
        f += 1
        _open(s, f)
        while not _advance(s, f):
            if s.K[K_WORK] >= s.K[K_LIMIT]:
                return GAVE_UP
            if s.F[f, LISTED] == 1 and s.F[f, CAND_NEXT] == s.F[f, CAND_END]:
                parent = _culprit(s, f)
                if parent < 0:
                    return GAVE_UP if s.K[K_PARTIAL] > 0 else FAILED
                while f > parent:
                    if s.F[f, ITEM] >= 0:
                        _lift(s, f)
                    f -= 1
    return FOUND


@inlined
def _culprit(s: State, f: int) -> int:
    """The choice to vary after all that f could place has failed, or -1; it inherits where that was."""
    a, b = s.F[f, HULL_A], s.F[f, HULL_B]
    parent = s.F[f, PARENT]
    while s.K[K_JUMP] > 0 and parent >= 0:
        i = s.F[parent, ITEM]
        if s.first[i] < b and s.last[i] > a:
            break
        parent = s.F[parent, PARENT]
        s.K[K_PARTIAL] = 1
    if parent >= 0:
        s.F[parent, HULL_A], s.F[parent, HULL_B] = min(s.F[parent, HULL_A], a), max(s.F[parent, HULL_B], b)
    return parent


@inlined
def _open(s: State, f: int) -> None:
    """Make choice f in the first region that waits, and find what it may place first."""
    region = s.K[K_WAITING]
    s.F[f, A], s.F[f, B] = s.R[region, R_A], s.R[region, R_B]
    s.F[f, AT], s.F[f, AFTER] = s.R[region, R_AT], s.R[region, R_AFTER]
    s.F[f, PARENT], s.F[f, REST] = s.R[region, R_PARENT], s.R[region, R_NEXT]
    s.F[f, REGIONS], s.F[f, TRAIL], s.F[f, ITEM] = s.K[K_REGIONS], s.K[K_TRAIL], -1
    a, b, at, after = s.F[f, A], s.F[f, B], s.F[f, AT], s.F[f, AFTER]
    # the lowest of the items left lies no higher than this: the fullest section must hold the rest of it above, and
    # no other item may fit below
    most = 0
    for section in range(a, b):
        most = max(most, s.left[section])
    highest = s.K[K_CAP] - most
    fullest = a
    while fullest + 1 < b and s.left[fullest] < most:
        fullest += 1
    s.F[f, HULL_A], s.F[f, HULL_B] = fullest, fullest + 1
    begin, end = s.R[region, R_LIST], s.R[region, R_LIST_END]
    alive, best = 0, -1
    for k in range(begin, end):
        i = s.pool[k]
        if waits(s, i, a, b):
            alive += 1
            low = s.low[i]
            under = low + s.nbytes[i] - 1
            if under < highest:
                highest = under
                s.F[f, HULL_A], s.F[f, HULL_B] = s.first[i], s.last[i]
            if (low > at or (low == at and i > after)) and (best < 0 or low < s.low[best]):
                best = i
    if 2 * alive < end - begin and s.K[K_POOL] + alive <= len(s.pool):
        begin, end = copied(s, begin, end, a, b)
    s.F[f, LIST], s.F[f, LIST_END], s.F[f, POOL] = begin, end, s.K[K_POOL]
    s.F[f, HIGHEST] = highest
    start = s.F[f - 1, CAND_END] if f > 0 else 0
    s.F[f, CAND_NEXT] = s.F[f, CAND_END] = start
    s.F[f, LISTED] = best < 0 or s.low[best] > highest
    if s.F[f, LISTED] == 0:
        s.cand[start] = best
        s.F[f, CAND_END] += 1


@inlined
def _list_candidates(s: State, f: int) -> None:
    """List what choice f may place after the first, which has failed: nothing if there is no room to."""
    a, b, at, after, n = s.F[f, A], s.F[f, B], s.F[f, AT], s.F[f, AFTER], s.F[f, CAND_END]
    s.F[f, LISTED] = 1
    if n + 2 * len(s.low) > len(s.cand):  # each of the following choices needs a row, too
        s.K[K_PARTIAL] = 1
        return
    first = s.cand[n - 1]
    for k in range(s.F[f, LIST], s.F[f, LIST_END]):
        i = s.pool[k]
        low = s.low[i]
        if low <= s.F[f, HIGHEST] and (low > at or (low == at and i > after)) and i != first and waits(s, i, a, b):
            s.cand[n] = i
            n += 1
    s.F[f, CAND_END] = n


@inlined
def _advance(s: State, f: int) -> bool:
    """Let choice f place its next item, if it has one, and see whether the rest may still fit."""
    if s.F[f, ITEM] >= 0:
        _lift(s, f)
    while s.K[K_TRAIL] > s.F[f, TRAIL]:
        s.K[K_TRAIL] -= 1
        t = s.K[K_TRAIL]
        s.low[s.T[t, T_ITEM]] = s.T[t, T_LOW]
    s.K[K_REGIONS], s.K[K_POOL] = s.F[f, REGIONS], s.F[f, POOL]
    if s.F[f, LISTED] == 0 and s.F[f, CAND_NEXT] == s.F[f, CAND_END]:
        _list_candidates(s, f)
    if s.F[f, CAND_NEXT] == s.F[f, CAND_END] or s.K[K_WORK] >= s.K[K_LIMIT]:
        return False
    s.K[K_WORK] += 1
    i = _lowest(s, f)
    s.F[f, CAND_NEXT] += 1
    s.F[f, ITEM] = i
    s.offset[i] = s.low[i]
    first, last = s.first[i], s.last[i]
    for section in range(first, last):
        s.left[section] -= s.nbytes[i]
    for section in range(first, last - 1):
        s.crossing[section] -= 1
    if not _raise(s, f, i):
        s.F[f, HULL_A] = min(s.F[f, HULL_A], s.K[K_HULL_A])
        s.F[f, HULL_B] = max(s.F[f, HULL_B], s.K[K_HULL_B])
        return False
    split(s, f, i)
    return True


@inlined
def _lowest(s: State, f: int) -> int:
    """The next item that choice f may place, exchanged to where the next is expected."""
    following = s.F[f, CAND_NEXT]
    least = following
    for k in range(following + 1, s.F[f, CAND_END]):
        i, j = s.cand[k], s.cand[least]
        if s.low[i] < s.low[j] or (s.low[i] == s.low[j] and i < j):
            least = k
    i = s.cand[least]
    s.cand[least] = s.cand[following]
    s.cand[following] = i
    return i


@inlined
def _lift(s: State, f: int) -> None:
    """Take the item of choice f out again."""
    i = s.F[f, ITEM]
    first, last = s.first[i], s.last[i]
    for section in range(first, last):
        s.left[section] += s.nbytes[i]
    for section in range(first, last - 1):
        s.crossing[section] += 1
    s.offset[i] = -1
    s.F[f, ITEM] = -1


@kernel
def _raise(s: State, f: int, i: int) -> bool:
    """Raise the lowest offsets of what overlaps item i, just placed; false if a section cannot hold the rest then."""
    cap, top = s.K[K_CAP], s.offset[i] + s.nbytes[i]
    first, last = s.first[i], s.last[i]
    a, b = len(s.left), 0
    for k in range(s.F[f, LIST], s.F[f, LIST_END]):  # what overlaps an item in time and waits is in its region
        j = s.pool[k]
        if s.low[j] >= top or s.offset[j] >= 0 or s.first[j] >= last or first >= s.last[j]:
            continue
        low = top
        if s.alignment[j] > 1:
            low = -(-top // s.alignment[j]) * s.alignment[j]
        s.T[s.K[K_TRAIL], T_ITEM], s.T[s.K[K_TRAIL], T_LOW] = j, s.low[j]
        s.K[K_TRAIL] += 1
        s.low[j] = low
        if low + s.nbytes[j] > cap:
            s.blame[j] += 1
            s.K[K_HULL_A], s.K[K_HULL_B] = s.first[j], s.last[j]
            return False
        a, b = min(a, s.first[j]), max(b, s.last[j])
    for section in range(a, b):
        if s.left[section] > 0 and not _holds(s, section):
            s.K[K_HULL_A], s.K[K_HULL_B] = section, section + 1
            return False
    return True


@inlined
def _holds(s: State, section: int) -> bool:
    """Whether the lowest offset left in this section leaves room for all that is left; else its items are blamed."""
    highest = s.K[K_CAP] - s.left[section]
    j = s.low_one[section]
    for _ in range(len(s.low)):
        if s.low[j] <= highest and s.offset[j] < 0 and s.first[j] <= section < s.last[j]:
            s.low_one[section] = j
            return True
        j = j + 1 if j + 1 < len(s.low) else 0
    for j in range(len(s.low)):
        if s.offset[j] < 0 and s.first[j] <= section < s.last[j]:
            s.blame[j] += 1
    return False
