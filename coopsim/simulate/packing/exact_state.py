"""The state of the planner's exact search (exact.py): placed items, choices that were made, waiting regions."""

from coopsim.simulate.kernel.reference import Bundle
from coopsim.simulate.packing.items import Ints

# F: a row per choice. It places ITEM (-1: none now), in the region of sections A to B - 1, where the last key was
# (AT, AFTER); the region's items are among pool[LIST:LIST_END]. What it may place lies no higher than HIGHEST. The
# next of that is among cand[CAND_NEXT:CAND_END]: only the lowest until that has failed, as it mostly does not, then
# all (LISTED). PARENT: the choice that made the region, tried again if this one fails. When it was made, TRAIL offsets
# had been raised, REGIONS regions were known, POOL of the pool was used, REST the first that waited. What failed below
# it did so in sections HULL_A to HULL_B - 1.
PARENT, A, B, AT, AFTER, LIST, LIST_END, HIGHEST, LISTED, CAND_NEXT, CAND_END = range(11)
ITEM, TRAIL, REGIONS, POOL, REST, HULL_A, HULL_B = range(11, 18)

# R: a row per region that waits: its sections, last key and maker, its list, and the next that waits (-1: none).
R_A, R_B, R_AT, R_AFTER, R_PARENT, R_LIST, R_LIST_END, R_NEXT = range(8)

# T: a row per raised offset: the item and what it was before.
T_ITEM, T_LOW = range(2)

# K: counters and registers. JUMP: whether to; PARTIAL: whether something was left out; the hull is the last failure's.
K_CAP, K_WORK, K_LIMIT, K_TRAIL, K_REGIONS, K_POOL, K_WAITING, K_JUMP, K_PARTIAL, K_HULL_A, K_HULL_B = range(11)


class SearchState(Bundle):
    """The arrays of one search, one per column of items and sections, as most columns are read alone."""

    nbytes: Ints
    first: Ints  # alive in the sections from this
    last: Ints  # to the one before this
    alignment: Ints
    offset: Ints  # -1: not placed
    low: Ints  # the lowest offset that those placed leave it
    blame: Ints  # how often it was among those that made a section fail
    left: Ints  # by section: bytes of its items still to be placed
    room: Ints  # by section: the highest offset from which on they have room
    crossing: Ints  # by section: such items alive in the next one too
    low_one: Ints  # by section: an item that was low enough when last looked for, to look from there on
    F: Ints
    R: Ints
    T: Ints
    K: Ints
    cand: Ints  # lists of items that choices may place
    pool: Ints  # lists of items, in the order in which they are given
    part: Ints  # by section: the part of the region that it is in
    part_end: Ints  # by part: where its list ends
    walls: Ints  # obstacles of items, those of an item from row `wall_from` to before `wall_until`
    wall_from: Ints
    wall_until: Ints
    hurdles: Ints  # obstacles of sections, those of a section from row `hurdle_at` on
    hurdle_at: Ints
