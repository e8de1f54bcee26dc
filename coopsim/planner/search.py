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
from coopsim.kernel.reference import Bundle
from coopsim.planner.items import Ints, Items
from coopsim.planner.sections import Sections, members, most_alive, pairs

FAILED, FOUND, GAVE_UP = range(3)  #: nothing fits below that height; offsets are found; the work was used up

# I: a row an item. Alive in sections FIRST to LAST - 1; OFFSET -1: not placed; LOW: the lowest offset that those placed
# leave it; BLAME: how often it was among those that made a section fail.
BYTES, FIRST, LAST, ALIGNMENT, OFFSET, LOW, BLAME = range(7)

# S: a row a section. LEFT: bytes of its items still to be placed; CROSSING: such items alive in the next one too;
# LOW_ONE: where `here` has an item that was low enough when last looked for, to look from there on.
LEFT, CROSSING, LOW_ONE = range(3)

# F: a row a choice. It places ITEM (-1: none now), one of cand[CAND:CAND_END], in the region of sections A to B - 1,
# where the last key was (AT, AFTER). PARENT: the choice that made the region, tried again if this one fails. When it
# was made, TRAIL offsets had been raised and REGIONS regions were known, REST the first that waited. What failed below
# it did so in sections HULL_A to HULL_B - 1.
PARENT, A, B, AT, AFTER, CAND, CAND_NEXT, CAND_END, ITEM, TRAIL, REGIONS, REST, HULL_A, HULL_B = range(14)

# R: a row a region that waits: its sections, last key and maker, and the next that waits (-1: none).
R_A, R_B, R_AT, R_AFTER, R_PARENT, R_NEXT = range(6)

# T: a row a raised offset: the item and what it was before.
T_ITEM, T_LOW = range(2)

# K: counters and registers. JUMP: whether to; JUMPED: whether it has; the hull is the last failure's.
K_CAP, K_WORK, K_LIMIT, K_TRAIL, K_REGIONS, K_WAITING, K_JUMP, K_JUMPED, K_HULL_A, K_HULL_B = range(10)


class State(Bundle):
    """One search. Arrays are described above; lists are ragged, row i of x is x[x_at[i]:x_at[i + 1]]."""

    I: Ints  # noqa: E741
    S: Ints
    F: Ints
    R: Ints
    T: Ints
    K: Ints
    cand: Ints
    near_at: Ints  # by item: those that overlap it in time
    near: Ints
    here_at: Ints  # by section: its items
    here: Ints


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
        I = np.zeros((n, 7), np.int64)  # noqa: E741
        I[:, BYTES], I[:, ALIGNMENT] = self.items.bytes[order], self.items.alignment[order]
        I[:, FIRST], I[:, LAST] = self.sections.first[order], self.sections.last[order]
        I[:, OFFSET] = -1
        ordered = Sections(I[:, FIRST], I[:, LAST], m)
        near_at, near = pairs(ordered)
        here_at, here = members(ordered)
        K = np.zeros(10, np.int64)
        K[K_CAP], K[K_LIMIT], K[K_JUMP] = height, limit, jump
        state = State(
            I=I,
            S=np.column_stack([self.left, self.crossing, here_at[:-1]]),
            F=np.zeros((n + 1, 14), np.int64),
            R=np.zeros((n + m + 1, 6), np.int64),
            T=np.zeros((len(near) + 1, 2), np.int64),
            K=K,
            cand=np.zeros(min(n * n, 1 << 22) + n, np.int64),
            near_at=near_at,
            near=near,
            here_at=here_at,
            here=here,
        )
        outcome = int(_search(state))
        offset, blame = np.zeros(n, np.int64), np.zeros(n, np.int64)
        offset[order], blame[order] = I[:, OFFSET], I[:, BLAME]
        return outcome, int(K[K_WORK]), offset, blame


@kernel
def _search(s: State) -> int:
    """FAILED, FOUND or GAVE_UP; the offsets are in the state."""
    s.K[K_WAITING] = -1
    _wait(s, 0, len(s.S), 0, -1, -1)
    f = -1
    while s.K[K_WAITING] >= 0:
        f += 1
        if not _open(s, f):
            return GAVE_UP
        while not _advance(s, f):
            if s.K[K_WORK] >= s.K[K_LIMIT]:
                return GAVE_UP
            if s.F[f, CAND_NEXT] == s.F[f, CAND_END]:
                parent = _culprit(s, f)
                if parent < 0:
                    return GAVE_UP if s.K[K_JUMPED] > 0 else FAILED
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
        if s.I[i, FIRST] < b and s.I[i, LAST] > a:
            break
        parent = s.F[parent, PARENT]
        s.K[K_JUMPED] = 1
    if parent >= 0:
        s.F[parent, HULL_A], s.F[parent, HULL_B] = min(s.F[parent, HULL_A], a), max(s.F[parent, HULL_B], b)
    return parent


@inlined
def _open(s: State, f: int) -> bool:
    """Make choice f in the first region that waits, and list what it may place. False if there is no room to."""
    region = s.K[K_WAITING]
    s.F[f, A], s.F[f, B] = s.R[region, R_A], s.R[region, R_B]
    s.F[f, AT], s.F[f, AFTER] = s.R[region, R_AT], s.R[region, R_AFTER]
    s.F[f, PARENT], s.F[f, REST] = s.R[region, R_PARENT], s.R[region, R_NEXT]
    s.F[f, REGIONS], s.F[f, TRAIL], s.F[f, ITEM] = s.K[K_REGIONS], s.K[K_TRAIL], -1
    a, b, at, after = s.F[f, A], s.F[f, B], s.F[f, AT], s.F[f, AFTER]
    # the lowest of the items left lies no higher than this: the fullest section must hold the rest of it above, and
    # no other item may fit below
    highest = s.K[K_CAP]
    s.F[f, HULL_A], s.F[f, HULL_B] = a, a
    for section in range(a, b):
        if s.S[section, LEFT] > 0 and s.K[K_CAP] - s.S[section, LEFT] < highest:
            highest = s.K[K_CAP] - s.S[section, LEFT]
            s.F[f, HULL_A], s.F[f, HULL_B] = section, section + 1
    start = s.F[f - 1, CAND_END] if f > 0 else 0
    if start + len(s.I) > len(s.cand):
        return False
    left = start
    for i in range(len(s.I)):
        if s.I[i, OFFSET] < 0 and s.I[i, FIRST] >= a and s.I[i, LAST] <= b:
            s.cand[left] = i
            left += 1
            under = s.I[i, LOW] + s.I[i, BYTES] - 1
            if under < highest:
                highest = under
                s.F[f, HULL_A], s.F[f, HULL_B] = s.I[i, FIRST], s.I[i, LAST]
    end = start
    for k in range(start, left):
        i = s.cand[k]
        low = s.I[i, LOW]
        if low <= highest and (low > at or (low == at and i > after)):
            s.cand[end] = i
            end += 1
    s.F[f, CAND], s.F[f, CAND_NEXT], s.F[f, CAND_END] = start, start, end
    return True


@inlined
def _advance(s: State, f: int) -> bool:
    """Let choice f place its next item, if it has one, and see whether the rest may still fit."""
    if s.F[f, ITEM] >= 0:
        _lift(s, f)
    while s.K[K_TRAIL] > s.F[f, TRAIL]:
        s.K[K_TRAIL] -= 1
        t = s.K[K_TRAIL]
        s.I[s.T[t, T_ITEM], LOW] = s.T[t, T_LOW]
    s.K[K_REGIONS] = s.F[f, REGIONS]
    if s.F[f, CAND_NEXT] == s.F[f, CAND_END] or s.K[K_WORK] >= s.K[K_LIMIT]:
        return False
    s.K[K_WORK] += 1
    i = _lowest(s, f)
    s.F[f, CAND_NEXT] += 1
    s.F[f, ITEM] = i
    s.I[i, OFFSET] = s.I[i, LOW]
    first, last = s.I[i, FIRST], s.I[i, LAST]
    for section in range(first, last):
        s.S[section, LEFT] -= s.I[i, BYTES]
    for section in range(first, last - 1):
        s.S[section, CROSSING] -= 1
    if not _raise(s, i):
        s.F[f, HULL_A] = min(s.F[f, HULL_A], s.K[K_HULL_A])
        s.F[f, HULL_B] = max(s.F[f, HULL_B], s.K[K_HULL_B])
        return False
    _split(s, f, i)
    return True


@inlined
def _lowest(s: State, f: int) -> int:
    """The next item that choice f may place, exchanged to where the next is expected."""
    following = s.F[f, CAND_NEXT]
    least = following
    for k in range(following + 1, s.F[f, CAND_END]):
        i, j = s.cand[k], s.cand[least]
        if s.I[i, LOW] < s.I[j, LOW] or (s.I[i, LOW] == s.I[j, LOW] and i < j):
            least = k
    i = s.cand[least]
    s.cand[least] = s.cand[following]
    s.cand[following] = i
    return i


@inlined
def _lift(s: State, f: int) -> None:
    """Take the item of choice f out again."""
    i = s.F[f, ITEM]
    first, last = s.I[i, FIRST], s.I[i, LAST]
    for section in range(first, last):
        s.S[section, LEFT] += s.I[i, BYTES]
    for section in range(first, last - 1):
        s.S[section, CROSSING] += 1
    s.I[i, OFFSET] = -1
    s.F[f, ITEM] = -1


@kernel
def _raise(s: State, i: int) -> bool:
    """Raise the lowest offsets of what overlaps item i, just placed; false if a section cannot hold the rest then."""
    cap, top = s.K[K_CAP], s.I[i, OFFSET] + s.I[i, BYTES]
    a, b = len(s.S), 0
    for k in range(s.near_at[i], s.near_at[i + 1]):
        j = s.near[k]
        if s.I[j, OFFSET] >= 0:
            continue
        low = top
        if s.I[j, ALIGNMENT] > 1:
            low = -(-top // s.I[j, ALIGNMENT]) * s.I[j, ALIGNMENT]
        if low > s.I[j, LOW]:
            s.T[s.K[K_TRAIL], T_ITEM], s.T[s.K[K_TRAIL], T_LOW] = j, s.I[j, LOW]
            s.K[K_TRAIL] += 1
            s.I[j, LOW] = low
            if low + s.I[j, BYTES] > cap:
                s.I[j, BLAME] += 1
                s.K[K_HULL_A], s.K[K_HULL_B] = s.I[j, FIRST], s.I[j, LAST]
                return False
            a, b = min(a, s.I[j, FIRST]), max(b, s.I[j, LAST])
    for section in range(a, b):
        if s.S[section, LEFT] > 0 and not _holds(s, section):
            s.K[K_HULL_A], s.K[K_HULL_B] = section, section + 1
            return False
    return True


@inlined
def _holds(s: State, section: int) -> bool:
    """Whether the lowest offset left in this section leaves room for all that is left; else its items are blamed."""
    highest = s.K[K_CAP] - s.S[section, LEFT]
    start, end = s.here_at[section], s.here_at[section + 1]
    k = s.S[section, LOW_ONE]
    for _ in range(start, end):
        j = s.here[k]
        if s.I[j, OFFSET] < 0 and s.I[j, LOW] <= highest:
            s.S[section, LOW_ONE] = k
            return True
        k = k + 1 if k + 1 < end else start
    for k in range(start, end):
        j = s.here[k]
        if s.I[j, OFFSET] < 0:
            s.I[j, BLAME] += 1
    return False


@inlined
def _split(s: State, f: int, i: int) -> None:
    """The region of choice f, without item i, in parts that no item left crosses; they wait before what waited."""
    s.K[K_WAITING] = s.F[f, REST]
    a = s.F[f, A]
    for section in range(s.F[f, A], s.F[f, B]):
        if section == s.F[f, B] - 1 or s.S[section, CROSSING] == 0:
            if section > a or s.S[section, LEFT] > 0:
                _wait(s, a, section + 1, s.I[i, OFFSET], i, f)
            a = section + 1


@inlined
def _wait(s: State, a: int, b: int, at: int, after: int, parent: int) -> None:
    region = s.K[K_REGIONS]
    s.K[K_REGIONS] += 1
    s.R[region, R_A], s.R[region, R_B], s.R[region, R_AT], s.R[region, R_AFTER] = a, b, at, after
    s.R[region, R_PARENT], s.R[region, R_NEXT] = parent, s.K[K_WAITING]
    s.K[K_WAITING] = region
