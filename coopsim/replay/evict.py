"""Find room for a value: best fit if it can be had, else evict as the policy says, then best fit."""

from coopsim.allocators.at_address import carve_highest, carve_near
from coopsim.kernel import codes
from coopsim.kernel import state as s
from coopsim.kernel.call import call_search
from coopsim.kernel.jit import inlined, kernel, now_ns
from coopsim.replay.loss.cache import tell
from coopsim.replay.loss.relatives import join_evicted
from coopsim.replay.memory import carve, largest_hole, list_pieces, log, run_needed, settle, uncarve
from coopsim.replay.plan import take_planned
from coopsim.replay.preferred import has_homes, home_of
from coopsim.replay.search import cheapest_value, cheapest_window, published_window


@kernel
def drop(S: s.State, v: int, action: int) -> None:
    """Take v out of memory: evicted by a search, released because nobody holds it, or freed for good."""
    log(S, action, v, 0)
    uncarve(S, S.V[v, s.PIECE])
    S.V[v, s.PIECE] = -1
    tell(S, v)
    if action == codes.EVICT:
        S.K[s.K_EVICTIONS] += 1
    elif action == codes.RELEASE:
        S.K[s.K_RELEASES] += 1
    if S.V[v, s.EVICTABLE] and action != codes.FREE:
        join_evicted(S, v)


@inlined
def _evict_window(S: s.State, need: int) -> bool:
    """Evict the cheapest window. Its values are collected first: pieces merge while they are freed."""
    piece, last = -1, -1
    if S.choice[s.C_SEARCH] == codes.SEARCH_WINDOW_PUBLISHED:
        piece, last = published_window(S, need)
    else:
        piece, last = cheapest_window(S, need, S.choice[s.C_SEARCH] == codes.SEARCH_WINDOW_THRIFTY)
    if piece < 0:
        return False
    n = 0
    while True:
        if S.P[piece, s.VALUE] >= 0:
            S.scratch[n] = S.P[piece, s.VALUE]
            n += 1
        if piece == last:
            break
        piece = S.P[piece, s.NEXT]
    for k in range(n):
        drop(S, S.scratch[k], codes.EVICT)
    return True


@inlined
def _carve(S: s.State, v: int) -> int:
    """Room for v as the policy places values, or -1."""
    if has_homes(S) and not S.K[s.K_FEW]:
        if S.V[v, s.EVICTABLE] == 0:
            return carve_highest(S, S.V[v, s.BYTES], v)
        home = home_of(S, v)
        if home != s.NO_HOME:
            return carve_near(S, S.V[v, s.BYTES], home, v)
    return carve(S, v, S.choice[s.C_PLACEMENT] != codes.PLACEMENT_LOW and S.V[v, s.EXPENSIVE] == 0)


@kernel
def _make_room(S: s.State, v: int) -> int:
    """Evict until v fits. Returns its piece, or -1 when nothing is left to evict."""
    piece = -1
    if S.K[s.K_USER_SEARCH] != 0:
        while piece < 0:
            list_pieces(S, -1)
            n = call_search(S.K[s.K_USER_SEARCH], S.V[v, s.BYTES])
            if n <= 0:
                break
            for k in range(n):
                drop(S, S.scratch[k], codes.EVICT)
            piece = _carve(S, v)
        return piece
    one_by_one = S.choice[s.C_SEARCH] == codes.SEARCH_GREEDY or S.choice[s.C_ALLOCATOR] == codes.COUNTER
    if not one_by_one:
        list_pieces(S, S.V[v, s.BYTES])
        if _evict_window(S, run_needed(S, v)):
            piece = _carve(S, v)
        # The caching allocator has no run of neighbours where segments are small, but gives empty ones back.
        one_by_one = S.choice[s.C_ALLOCATOR] == codes.CACHING
    while one_by_one and piece < 0:
        list_pieces(S, -1)
        victim = cheapest_value(S)
        if victim < 0:
            break
        drop(S, victim, codes.EVICT)
        piece = _carve(S, v)
    return piece


@kernel
def allocate(S: s.State, v: int) -> bool:
    """Give v a place in memory. False if there is none: the outcome is then out of memory."""
    visits_before = S.K[s.K_VISITS]
    piece = -1
    if S.K[s.K_REQUEST] >= 0:
        piece = take_planned(S, v)
    if piece < 0:
        piece = _carve(S, v)
    if piece < 0:
        started = now_ns()
        piece = _make_room(S, v)
        S.K[s.K_SEARCH_NS] += now_ns() - started
        S.K[s.K_SEARCHES] += 1
        if piece < 0:
            S.K[s.K_OUTCOME] = codes.OUTCOME_OOM
            S.K[s.K_NEEDED] = S.V[v, s.BYTES]
            S.K[s.K_LARGEST] = largest_hole(S)
            return False
        free, budget = float(S.K[s.K_FREE]), float(S.K[s.K_BUDGET])
        S.F[s.F_FREE] += free / budget
        S.F[s.F_FREE_INCL] += (free + S.V[v, s.BYTES]) / budget
        if free > 0:
            S.F[s.F_SCATTER] += 1.0 - largest_hole(S) / free
    settle(S, v, piece)
    S.P[piece, s.LAST_USE] = S.K[s.K_CLOCK]
    tell(S, v)
    log(S, codes.ALLOC, v, S.K[s.K_VISITS] - visits_before)
    return True
