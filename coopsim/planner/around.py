"""Plans some items around others that keep their offsets."""

from coopsim.planner.by_parts import Attempt
from coopsim.planner.fit import height
from coopsim.planner.items import Ints, Items, lower_bound
from coopsim.planner.orders import Keys
from coopsim.planner.sections import sections

_ATTEMPTS = 4  #: for each height
_HIGHER = (0, 256, 64, 16, 4)  #: heights that are tried: the bound (0), and the bound plus its 256th, 64th, … part


def plan_around(items: Items, given: Ints, work: int) -> tuple[Ints | None, int]:
    """Find offsets for the items whose `given` offset is -1; the others keep theirs.

    work: a limit on the placements that are tried. Returns the offsets of all items, in bytes, and the work that was
    used; no offsets (None) if the work finds no plan up to a quarter above the lower bound. The same arguments give the
    same plan.
    """
    kept = given >= 0
    bound = max(lower_bound(items), height(items[kept], given[kept]) if kept.any() else 0)
    keys = Keys(items, sections(items))
    left = work
    for number in range(_ATTEMPTS * len(_HIGHER)):
        part = _HIGHER[number // _ATTEMPTS]
        attempt = Attempt(keys, bound + (bound // part if part else 0), number % _ATTEMPTS, given)
        if attempt.run(max(left // 4, 1)):
            return attempt.offset, work - left + attempt.used
        left -= attempt.used
        if left <= 0:
            break
    return None, work - left
