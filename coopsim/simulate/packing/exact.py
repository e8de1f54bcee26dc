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

from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.packing import exact_state as s
from coopsim.simulate.packing.items import Ints, Items
from coopsim.simulate.packing.obstacles import Obstacles, clear, lowest_room, nothing
from coopsim.simulate.packing.regions import copied, split, wait, waits
from coopsim.simulate.packing.sections import Sections, count_pairs, most_alive

_MOST = 1 << 22  # rows of a list that is longer if everything overlaps

FAILED, FOUND, GAVE_UP = range(3)  #: nothing fits below that height; offsets are found; the work was used up


class ExactSearch:
    """Searches for plans of the same items, given their sections `found`, around obstacles, in any order and height."""

    def __init__(self, items: Items, found: Sections, around: Obstacles | None = None) -> None:
        n = len(items)
        self.items, self.sections, self.around = items, found, around or nothing(n, found.count)
        self.left = most_alive(items.bytes, found)[0]
        ones = np.ones(n, np.int64)
        cut = Sections(found.first, found.last - 1, found.count)
        wide = found.last - found.first > 1
        self.crossing = np.zeros(found.count + 1, np.int64)
        np.add.at(self.crossing, cut.first[wide], ones[wide])
        np.add.at(self.crossing, cut.last[wide], -ones[wide])
        self.crossing = np.cumsum(self.crossing)[:-1]

    def below(self, height: int, order: Ints, limit: int, *, jump: bool = False) -> tuple[int, int, Ints, Ints]:
        """Place all items below `height`, in bytes, with at most `limit` placements.

        order: the numbers of the items in the order in which they are tried. jump: attribute failures only to what
        overlaps them in time, which is faster and never proves that nothing fits.
        Returns FAILED, FOUND or GAVE_UP; the number of placements made; the offsets by item, in bytes, meaningless
        unless FOUND; and the blame: by item, how often it was part of a failure.
        """
        n, m = len(self.items), self.sections.count
        walls, hurdles = self.around.of_item, self.around.of_section
        K = np.zeros(11, np.int64)
        K[s.K_CAP], K[s.K_LIMIT], K[s.K_JUMP], K[s.K_POOL] = height, limit, jump, n
        pool = np.empty(min(n * n, _MOST) + n, np.int64)
        pool[:n] = np.arange(n)
        state = s.SearchState(
            nbytes=self.items.bytes[order],
            first=self.sections.first[order],
            last=self.sections.last[order],
            alignment=self.items.alignment[order],
            offset=np.full(n, -1),
            low=np.zeros(n, np.int64),
            blame=np.zeros(n, np.int64),
            left=self.left.copy(),
            room=np.zeros(m, np.int64),
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
            walls=walls.rows,
            wall_from=walls.at[:-1][order],
            wall_until=walls.at[1:][order],
            hurdles=hurdles.rows,
            hurdle_at=hurdles.at,
        )
        outcome = int(_search(state))
        offset, blame = np.zeros(n, np.int64), np.zeros(n, np.int64)
        offset[order], blame[order] = state.offset, state.blame
        return outcome, int(K[s.K_WORK]), offset, blame


@kernel
def _search(S: s.SearchState) -> int:
    """Search depth first; return FAILED, FOUND or GAVE_UP, and leave the offsets in the state."""
    S.K[s.K_WAITING] = -1
    for section in range(len(S.left)):
        S.room[section] = lowest_room(S, section)
    for i in range(len(S.low)):
        S.low[i] = clear(S, i, 0)
    wait(S, 0, len(S.left), 0, len(S.low), 0, -1, -1)
    f = -1
    while S.K[s.K_WAITING] >= 0:
        f += 1
        _open(S, f)
        while not _advance(S, f):
            if S.K[s.K_WORK] >= S.K[s.K_LIMIT]:
                return GAVE_UP
            if S.F[f, s.LISTED] == 1 and S.F[f, s.CAND_NEXT] == S.F[f, s.CAND_END]:
                parent = _culprit(S, f)
                if parent < 0:
                    return GAVE_UP if S.K[s.K_PARTIAL] > 0 else FAILED
                while f > parent:
                    if S.F[f, s.ITEM] >= 0:
                        _lift(S, f)
                    f -= 1
    return FOUND


@inlined
def _culprit(S: s.SearchState, f: int) -> int:
    """The choice to vary after all that choice f could place has failed, or -1; it inherits the failure's sections."""
    a, b = S.F[f, s.HULL_A], S.F[f, s.HULL_B]
    parent = S.F[f, s.PARENT]
    while S.K[s.K_JUMP] > 0 and parent >= 0:
        i = S.F[parent, s.ITEM]
        if S.first[i] < b and S.last[i] > a:
            break
        parent = S.F[parent, s.PARENT]
        S.K[s.K_PARTIAL] = 1
    if parent >= 0:
        S.F[parent, s.HULL_A], S.F[parent, s.HULL_B] = min(S.F[parent, s.HULL_A], a), max(S.F[parent, s.HULL_B], b)
    return parent


@inlined
def _open(S: s.SearchState, f: int) -> None:
    """Open choice f in the first waiting region, and find the item that it may place first."""
    region = S.K[s.K_WAITING]
    S.F[f, s.A], S.F[f, s.B] = S.R[region, s.R_A], S.R[region, s.R_B]
    S.F[f, s.AT], S.F[f, s.AFTER] = S.R[region, s.R_AT], S.R[region, s.R_AFTER]
    S.F[f, s.PARENT], S.F[f, s.REST] = S.R[region, s.R_PARENT], S.R[region, s.R_NEXT]
    S.F[f, s.REGIONS], S.F[f, s.TRAIL], S.F[f, s.ITEM] = S.K[s.K_REGIONS], S.K[s.K_TRAIL], -1
    a, b, at, after = S.F[f, s.A], S.F[f, s.B], S.F[f, s.AT], S.F[f, s.AFTER]
    # the lowest of the items left lies no higher than this: the fullest section must hold the rest of it above, and
    # no other item may fit below
    fullest = a
    for section in range(a, b):
        if S.room[section] < S.room[fullest]:
            fullest = section
    highest = S.room[fullest]
    S.F[f, s.HULL_A], S.F[f, s.HULL_B] = fullest, fullest + 1
    begin, end = S.R[region, s.R_LIST], S.R[region, s.R_LIST_END]
    alive, best = 0, -1
    for k in range(begin, end):
        i = S.pool[k]
        if waits(S, i, a, b):
            alive += 1
            low = S.low[i]
            under = low + S.nbytes[i] - 1
            if under < highest:
                highest = under
                S.F[f, s.HULL_A], S.F[f, s.HULL_B] = S.first[i], S.last[i]
            if (low > at or (low == at and i > after)) and (best < 0 or low < S.low[best]):
                best = i
    if 2 * alive < end - begin and S.K[s.K_POOL] + alive <= len(S.pool):
        begin, end = copied(S, begin, end, a, b)
    S.F[f, s.LIST], S.F[f, s.LIST_END], S.F[f, s.POOL] = begin, end, S.K[s.K_POOL]
    S.F[f, s.HIGHEST] = highest
    start = S.F[f - 1, s.CAND_END] if f > 0 else 0
    S.F[f, s.CAND_NEXT] = S.F[f, s.CAND_END] = start
    S.F[f, s.LISTED] = best < 0 or S.low[best] > highest
    if S.F[f, s.LISTED] == 0:
        S.cand[start] = best
        S.F[f, s.CAND_END] += 1


@inlined
def _list_candidates(S: s.SearchState, f: int) -> None:
    """List what choice f may place after its first item, which has failed; nothing if the list has no room."""
    a, b, at, after, n = S.F[f, s.A], S.F[f, s.B], S.F[f, s.AT], S.F[f, s.AFTER], S.F[f, s.CAND_END]
    S.F[f, s.LISTED] = 1
    if n + 2 * len(S.low) > len(S.cand):  # each of the following choices needs a row, too
        S.K[s.K_PARTIAL] = 1
        return
    first = S.cand[n - 1]
    for k in range(S.F[f, s.LIST], S.F[f, s.LIST_END]):
        i = S.pool[k]
        low = S.low[i]
        if low <= S.F[f, s.HIGHEST] and (low > at or (low == at and i > after)) and i != first and waits(S, i, a, b):
            S.cand[n] = i
            n += 1
    S.F[f, s.CAND_END] = n


@inlined
def _advance(S: s.SearchState, f: int) -> bool:
    """Let choice f place its next item. False if it has none, or if the rest cannot fit any more."""
    if S.F[f, s.ITEM] >= 0:
        _lift(S, f)
    while S.K[s.K_TRAIL] > S.F[f, s.TRAIL]:
        S.K[s.K_TRAIL] -= 1
        t = S.K[s.K_TRAIL]
        S.low[S.T[t, s.T_ITEM]] = S.T[t, s.T_LOW]
    S.K[s.K_REGIONS], S.K[s.K_POOL] = S.F[f, s.REGIONS], S.F[f, s.POOL]
    if S.F[f, s.LISTED] == 0 and S.F[f, s.CAND_NEXT] == S.F[f, s.CAND_END]:
        _list_candidates(S, f)
    if S.F[f, s.CAND_NEXT] == S.F[f, s.CAND_END] or S.K[s.K_WORK] >= S.K[s.K_LIMIT]:
        return False
    S.K[s.K_WORK] += 1
    i = _lowest(S, f)
    S.F[f, s.CAND_NEXT] += 1
    S.F[f, s.ITEM] = i
    S.offset[i] = S.low[i]
    first, last = S.first[i], S.last[i]
    for section in range(first, last):
        S.left[section] -= S.nbytes[i]
        S.room[section] = lowest_room(S, section)
    for section in range(first, last - 1):
        S.crossing[section] -= 1
    if not _raise(S, f, i):
        S.F[f, s.HULL_A] = min(S.F[f, s.HULL_A], S.K[s.K_HULL_A])
        S.F[f, s.HULL_B] = max(S.F[f, s.HULL_B], S.K[s.K_HULL_B])
        return False
    split(S, f, i)
    return True


@inlined
def _lowest(S: s.SearchState, f: int) -> int:
    """The lowest item that choice f may still place, swapped to the position that is read next."""
    following = S.F[f, s.CAND_NEXT]
    least = following
    for k in range(following + 1, S.F[f, s.CAND_END]):
        i, j = S.cand[k], S.cand[least]
        if S.low[i] < S.low[j] or (S.low[i] == S.low[j] and i < j):
            least = k
    i = S.cand[least]
    S.cand[least] = S.cand[following]
    S.cand[following] = i
    return i


@inlined
def _lift(S: s.SearchState, f: int) -> None:
    """Undo the placement of choice f's item."""
    i = S.F[f, s.ITEM]
    first, last = S.first[i], S.last[i]
    for section in range(first, last):
        S.left[section] += S.nbytes[i]
        S.room[section] = lowest_room(S, section)
    for section in range(first, last - 1):
        S.crossing[section] += 1
    S.offset[i] = -1
    S.F[f, s.ITEM] = -1


@kernel
def _raise(S: s.SearchState, f: int, i: int) -> bool:
    """Raise the lowest offsets of what overlaps item i, just placed. False if a section then cannot hold its rest."""
    cap, top = S.K[s.K_CAP], S.offset[i] + S.nbytes[i]
    first, last = S.first[i], S.last[i]
    a, b = len(S.left), 0
    for k in range(S.F[f, s.LIST], S.F[f, s.LIST_END]):  # what overlaps an item in time and waits is in its region
        j = S.pool[k]
        if S.low[j] >= top or S.offset[j] >= 0 or S.first[j] >= last or first >= S.last[j]:
            continue
        low = clear(S, j, top)
        S.T[S.K[s.K_TRAIL], s.T_ITEM], S.T[S.K[s.K_TRAIL], s.T_LOW] = j, S.low[j]
        S.K[s.K_TRAIL] += 1
        S.low[j] = low
        if low + S.nbytes[j] > cap:
            S.blame[j] += 1
            S.K[s.K_HULL_A], S.K[s.K_HULL_B] = S.first[j], S.last[j]
            return False
        a, b = min(a, S.first[j]), max(b, S.last[j])
    for section in range(a, b):
        if S.left[section] > 0 and not _holds(S, section):
            S.K[s.K_HULL_A], S.K[s.K_HULL_B] = section, section + 1
            return False
    return True


@inlined
def _holds(S: s.SearchState, section: int) -> bool:
    """Whether a section has room for what is left in it, above the lowest offset left; if not, blame its items."""
    highest = S.room[section]
    j = S.low_one[section]
    for _ in range(len(S.low)):
        if S.low[j] <= highest and S.offset[j] < 0 and S.first[j] <= section < S.last[j]:
            S.low_one[section] = j
            return True
        j = j + 1 if j + 1 < len(S.low) else 0
    for j in range(len(S.low)):
        if S.offset[j] < 0 and S.first[j] <= section < S.last[j]:
            S.blame[j] += 1
    return False
