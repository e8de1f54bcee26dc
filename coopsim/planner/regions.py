"""Regions of the exact search (exact.py): stretches of sections that no item left to be placed crosses the ends of.

Those that wait to be searched are a stack. Each has a list of items, among which are all that are left in it.
"""

from coopsim.kernel.jit import inlined
from coopsim.planner.exact_state import (
    K_POOL,
    K_REGIONS,
    K_WAITING,
    LIST,
    LIST_END,
    PARENT,
    R_A,
    R_AFTER,
    R_AT,
    R_B,
    R_LIST,
    R_LIST_END,
    R_NEXT,
    R_PARENT,
    REST,
    A,
    B,
    State,
)


@inlined
def split(s: State, f: int, i: int) -> None:
    """The region of choice f, without item i, in parts that no item left crosses; they wait before what waited."""
    s.K[K_WAITING] = s.F[f, REST]
    a, b, begin, end = s.F[f, A], s.F[f, B], s.F[f, LIST], s.F[f, LIST_END]
    if not _is_cut(s, f, i):
        if b - a > 1 or s.left[a] > 0:
            wait(s, a, b, begin, end, s.offset[i], i, f)
        return
    listed = s.K[K_POOL] + end - begin <= len(s.pool)
    if listed:
        begin = s.K[K_POOL]
        _list_parts(s, f)
    for section in range(a, b):
        if section == b - 1 or s.crossing[section] == 0:
            if listed:
                end = s.part_end[s.part[section]]
            if section > a or s.left[section] > 0:
                wait(s, a, section + 1, begin, end, s.offset[i], i, f)
            a = section + 1
            if listed:
                begin = end


@inlined
def _is_cut(s: State, f: int, i: int) -> bool:
    """Whether the region of choice f is in parts without item i. But for the first region, each was in one."""
    first, last = s.first[i], s.last[i]
    if s.F[f, PARENT] < 0:
        first, last = s.F[f, A], s.F[f, B]
    cut = False
    for section in range(first, last - 1):
        cut |= s.crossing[section] == 0
    return cut


@inlined
def _list_parts(s: State, f: int) -> None:
    """Number the parts of choice f's region, and list what waits in each, one list after the other."""
    a, b, parts = s.F[f, A], s.F[f, B], 1
    for section in range(a, b):
        s.part[section] = parts - 1
        if section < b - 1 and s.crossing[section] == 0:
            parts += 1
    for part in range(parts + 1):
        s.part_end[part] = 0
    for k in range(s.F[f, LIST], s.F[f, LIST_END]):
        i = s.pool[k]
        if waits(s, i, a, b):
            s.part_end[s.part[s.first[i]] + 1] += 1
    s.part_end[0] = s.K[K_POOL]
    for part in range(parts):
        s.part_end[part + 1] += s.part_end[part]
    for k in range(s.F[f, LIST], s.F[f, LIST_END]):
        i = s.pool[k]
        if waits(s, i, a, b):
            part = s.part[s.first[i]]
            s.pool[s.part_end[part]] = i
            s.part_end[part] += 1
    s.K[K_POOL] = s.part_end[parts]


@inlined
def wait(s: State, a: int, b: int, begin: int, end: int, at: int, after: int, parent: int) -> None:
    """Put a region on the stack of those that wait."""
    region = s.K[K_REGIONS]
    s.K[K_REGIONS] += 1
    s.R[region, R_A], s.R[region, R_B], s.R[region, R_AT], s.R[region, R_AFTER] = a, b, at, after
    s.R[region, R_LIST], s.R[region, R_LIST_END] = begin, end
    s.R[region, R_PARENT], s.R[region, R_NEXT] = parent, s.K[K_WAITING]
    s.K[K_WAITING] = region


@inlined
def waits(s: State, i: int, a: int, b: int) -> bool:
    """Whether item i is still to be placed, and lies in these sections."""
    return s.offset[i] < 0 and s.first[i] >= a and s.last[i] <= b


@inlined
def copied(s: State, begin: int, end: int, a: int, b: int) -> tuple[int, int]:
    """A list without what is placed or lies elsewhere, as a new one."""
    start = n = s.K[K_POOL]
    for k in range(begin, end):
        i = s.pool[k]
        if waits(s, i, a, b):
            s.pool[n] = i
            n += 1
    s.K[K_POOL] = n
    return start, n
