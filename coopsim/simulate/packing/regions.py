"""Regions of the exact search (exact.py): runs of sections whose ends no item left to be placed crosses.

Regions that wait to be searched are on a stack. Each has a list of items that includes all that are left in it.
"""

from coopsim.simulate.kernel.jit import inlined
from coopsim.simulate.packing import exact_state as s


@inlined
def split(S: s.SearchState, f: int, i: int) -> None:
    """Split the region of choice f, without item i, where no item left crosses, and push the parts onto the stack."""
    S.K[s.K_WAITING] = S.F[f, s.REST]
    a, b, begin, end = S.F[f, s.A], S.F[f, s.B], S.F[f, s.LIST], S.F[f, s.LIST_END]
    if not _is_cut(S, f, i):
        if b - a > 1 or S.left[a] > 0:
            wait(S, a, b, begin, end, S.offset[i], i, f)
        return
    listed = S.K[s.K_POOL] + end - begin <= len(S.pool)
    if listed:
        begin = S.K[s.K_POOL]
        _list_parts(S, f)
    for section in range(a, b):
        if section == b - 1 or S.crossing[section] == 0:
            if listed:
                end = S.part_end[S.part[section]]
            if section > a or S.left[section] > 0:
                wait(S, a, section + 1, begin, end, S.offset[i], i, f)
            a = section + 1
            if listed:
                begin = end


@inlined
def _is_cut(S: s.SearchState, f: int, i: int) -> bool:
    """Whether the region of choice f falls apart without item i. Before, each region but the first was connected."""
    first, last = S.first[i], S.last[i]
    if S.F[f, s.PARENT] < 0:
        first, last = S.F[f, s.A], S.F[f, s.B]
    cut = False
    for section in range(first, last - 1):
        cut |= S.crossing[section] == 0
    return cut


@inlined
def _list_parts(S: s.SearchState, f: int) -> None:
    """Number the parts of choice f's region, and list the waiting items of each, one list after the other."""
    a, b, parts = S.F[f, s.A], S.F[f, s.B], 1
    for section in range(a, b):
        S.part[section] = parts - 1
        if section < b - 1 and S.crossing[section] == 0:
            parts += 1
    for part in range(parts + 1):
        S.part_end[part] = 0
    for k in range(S.F[f, s.LIST], S.F[f, s.LIST_END]):
        i = S.pool[k]
        if waits(S, i, a, b):
            S.part_end[S.part[S.first[i]] + 1] += 1
    S.part_end[0] = S.K[s.K_POOL]
    for part in range(parts):
        S.part_end[part + 1] += S.part_end[part]
    for k in range(S.F[f, s.LIST], S.F[f, s.LIST_END]):
        i = S.pool[k]
        if waits(S, i, a, b):
            part = S.part[S.first[i]]
            S.pool[S.part_end[part]] = i
            S.part_end[part] += 1
    S.K[s.K_POOL] = S.part_end[parts]


@inlined
def wait(S: s.SearchState, a: int, b: int, begin: int, end: int, at: int, after: int, parent: int) -> None:
    """Push a region, sections a to b - 1, onto the stack of waiting regions."""
    region = S.K[s.K_REGIONS]
    S.K[s.K_REGIONS] += 1
    S.R[region, s.R_A], S.R[region, s.R_B], S.R[region, s.R_AT], S.R[region, s.R_AFTER] = a, b, at, after
    S.R[region, s.R_LIST], S.R[region, s.R_LIST_END] = begin, end
    S.R[region, s.R_PARENT], S.R[region, s.R_NEXT] = parent, S.K[s.K_WAITING]
    S.K[s.K_WAITING] = region


@inlined
def waits(S: s.SearchState, i: int, a: int, b: int) -> bool:
    """Whether item i is still to be placed, and alive in sections a to b - 1 only."""
    return S.offset[i] < 0 and S.first[i] >= a and S.last[i] <= b


@inlined
def copied(S: s.SearchState, begin: int, end: int, a: int, b: int) -> tuple[int, int]:
    """Copy the list pool[begin:end] without items that are placed or lie elsewhere; return its bounds."""
    start = n = S.K[s.K_POOL]
    for k in range(begin, end):
        i = S.pool[k]
        if waits(S, i, a, b):
            S.pool[n] = i
            n += 1
    S.K[s.K_POOL] = n
    return start, n
