"""Find room for a value: best fit if it can be had, else evict as the policy says, then best fit."""

from coopsim.simulate.allocators.at_address import carve_highest, carve_near
from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.call import call_hook
from coopsim.simulate.kernel.jit import inlined, kernel, now_ns
from coopsim.simulate.replay.block_table import fill_scores, fill_table
from coopsim.simulate.replay.host import discard, is_back, offload, offloads, wait
from coopsim.simulate.replay.loss import join_evicted
from coopsim.simulate.replay.loss_cache import invalidate
from coopsim.simulate.replay.memory import assign, carve, largest_hole, list_blocks, log, run_needed, uncarve
from coopsim.simulate.replay.plan import take_planned
from coopsim.simulate.replay.preferred import has_preferred, preferred_address
from coopsim.simulate.replay.score import is_recomputed
from coopsim.simulate.replay.search import below_border, can_go, cheapest_value, cheapest_window, published_window


@kernel
def drop(S: s.State, v: int, action: int) -> None:
    """Take v out of memory: evicted by a search, released because nobody holds it, or freed for good."""
    discard(S, v)
    log(S, action, v, 0)
    uncarve(S, S.V[v, s.BLOCK])
    S.V[v, s.BLOCK] = s.NOWHERE
    invalidate(S, v)
    if action == codes.EVICT:
        S.K[s.K_EVICTIONS] += 1
    elif action == codes.RELEASE:
        S.K[s.K_RELEASES] += 1
    if S.V[v, s.EVICTABLE] and action != codes.FREE:
        join_evicted(S, v)


@kernel
def lose(S: s.State, v: int) -> bool:
    """Take v, which a search has chosen, out of memory: drop or offload it. False if by now it can't be lost."""
    if not offloads(S):
        drop(S, v, codes.EVICT)
        return True
    if not can_go(S, v):
        return False
    if is_recomputed(S, v):
        drop(S, v, codes.EVICT)
        return True
    if S.copies[v, s.HOST_AT] == s.NO_COPY:
        offload(S, v)
    wait(S, S.copies[v, s.HOST_AT])
    evict_to_host(S, v)
    return True


@kernel
def evict_to_host(S: s.State, v: int) -> None:
    """v, of which the host has a whole copy, loses its bytes on the device."""
    log(S, codes.EVICT, v, 0)
    uncarve(S, S.V[v, s.BLOCK])
    S.V[v, s.BLOCK] = s.ON_HOST
    S.K[s.K_HOST_SPARE] -= S.V[v, s.BYTES]
    S.K[s.K_EVICTIONS] += 1


@inlined
def _evict_window(S: s.State, need: int) -> bool:
    """Evict the cheapest window. Its values are collected first: blocks merge while they are freed."""
    block, last = -1, -1
    if S.choice[s.C_SEARCH] == codes.SEARCH_WINDOW_PUBLISHED:
        block, last = published_window(S, need)
    else:
        block, last = cheapest_window(S, need, S.choice[s.C_SEARCH] == codes.SEARCH_WINDOW_THRIFTY)
    if block < 0:
        return False
    n = 0
    while True:
        if S.P[block, s.VALUE] >= 0:
            S.scratch[n] = S.P[block, s.VALUE]
            n += 1
        if block == last:
            break
        block = S.P[block, s.NEXT]
    lost = False
    for k in range(n):
        lost |= lose(S, S.scratch[k])
    return lost


@inlined
def _carve(S: s.State, v: int) -> int:
    """Room for v as the policy places values, or -1."""
    if has_preferred(S) and not S.K[s.K_FEW] and S.K[s.K_BORDER] == s.NO_BORDER:
        if S.V[v, s.EVICTABLE] == 0:
            return carve_highest(S, S.V[v, s.BYTES], v)
        address = preferred_address(S, v)
        if address != s.NO_ADDRESS:
            return carve_near(S, S.V[v, s.BYTES], address, v)
    return carve(S, v, _goes_high(S, v))


@inlined
def _goes_high(S: s.State, v: int) -> bool:
    """Whether v takes the high end of its hole."""
    placement, expensive = S.choice[s.C_PLACEMENT], S.V[v, s.EXPENSIVE]
    if placement == codes.PLACEMENT_LOW or expensive == s.COSTLY:
        return False
    return expensive == s.CHEAP or placement != codes.PLACEMENT_TWO_ENDED_OPS


@inlined
def _lose_chosen(S: s.State, n: int) -> bool:
    """Lose the n values in scratch, which a user's search has chosen. False if nothing went; all must be able to."""
    for k in range(n):
        v = S.scratch[k]
        inside = (v >= 0) & (v < S.V.shape[0])
        if not inside or S.V[v, s.BLOCK] < 0 or not can_go(S, v) or not below_border(S, v):
            S.K[s.K_REFUSED] = v + 1 if v >= 0 else v
            return False
    lost = False
    for k in range(n):
        if S.V[S.scratch[k], s.BLOCK] >= 0:  # it may be chosen twice
            lost |= lose(S, S.scratch[k])
    return lost


@kernel
def _make_room(S: s.State, v: int) -> int:
    """Evict until v fits. Returns its block, or -1 when nothing is left to evict."""
    block = -1
    if S.K[s.K_TOLD] >> codes.SEARCH & 1:
        while block < 0:
            list_blocks(S, -1)
            if S.K[s.K_TABLE] != 0:
                fill_table(S, S.K[s.K_TOLD] >> codes.WHERE & 1 == 1)
                if S.K[s.K_TOLD] >> codes.SCORES & 1:
                    fill_scores(S)
                if not _lose_chosen(S, call_hook(S.K[s.K_SEARCH], S.K[s.K_TABLE], S.V[v, s.BYTES])):
                    break
            elif not _lose_chosen(S, call_hook(S.K[s.K_HOOK], codes.SEARCH, S.V[v, s.BYTES])):
                break
            block = _carve(S, v)
        return block
    one_by_one = S.choice[s.C_SEARCH] == codes.SEARCH_GREEDY or S.choice[s.C_ALLOCATOR] == codes.COUNTER
    while not one_by_one:
        list_blocks(S, S.V[v, s.BYTES])
        if _evict_window(S, run_needed(S, v)):
            block = _carve(S, v)
            if block < 0 and offloads(S):  # what the host has no room for is still there
                continue
        # The caching allocator has no run of neighbours where segments are small, but gives empty ones back.
        one_by_one = S.choice[s.C_ALLOCATOR] == codes.CACHING
        break
    while one_by_one and block < 0:
        list_blocks(S, -1)
        victim = cheapest_value(S)
        if victim < 0:
            break
        lose(S, victim)
        block = _carve(S, v)
    return block


@kernel
def allocate(S: s.State, v: int) -> bool:
    """Give v a place in memory. False if there is none: the outcome is then out of memory."""
    visits_before = S.K[s.K_VISITS]
    block = -1
    if S.K[s.K_REQUEST] >= 0:
        block = take_planned(S, v)
    if block < 0:
        block = _carve(S, v)
    if block < 0:
        started = now_ns()
        block = _make_room(S, v)
        S.K[s.K_SEARCH_NS] += now_ns() - started
        S.K[s.K_SEARCHES] += 1
        if block < 0:
            S.K[s.K_OUTCOME] = codes.OUTCOME_OOM
            S.K[s.K_NEEDED] = S.V[v, s.BYTES]
            S.K[s.K_LARGEST] = largest_hole(S)
            return False
        free, budget = float(S.K[s.K_FREE]), float(S.K[s.K_BUDGET])
        S.F[s.F_FREE] += free / budget
        S.F[s.F_FREE_INCL] += (free + S.V[v, s.BYTES]) / budget
        if free > 0:
            S.F[s.F_FRAGMENTATION] += 1.0 - largest_hole(S) / free
    is_back(S, v)
    assign(S, v, block)
    S.P[block, s.LAST_USE] = S.K[s.K_CLOCK]
    invalidate(S, v)
    log(S, codes.ALLOC, v, S.K[s.K_VISITS] - visits_before)
    return True
