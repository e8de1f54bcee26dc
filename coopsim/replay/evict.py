"""Find room for a value: best fit if it can be had, else evict as the policy says, then best fit."""

from coopsim.allocators.at_address import carve_highest, carve_near
from coopsim.kernel import codes
from coopsim.kernel.call import call_search
from coopsim.kernel.jit import inlined, kernel, now_ns
from coopsim.kernel.state import (
    BYTES,
    C_ALLOCATOR,
    C_PLACEMENT,
    C_SEARCH,
    EVICTABLE,
    EXPENSIVE,
    F_FREE,
    F_FREE_INCL,
    F_SCATTER,
    K_BUDGET,
    K_CLOCK,
    K_EVICTIONS,
    K_FEW,
    K_FREE,
    K_LARGEST,
    K_NEEDED,
    K_OUTCOME,
    K_RELEASES,
    K_REQUEST,
    K_SEARCH_NS,
    K_SEARCHES,
    K_USER_SEARCH,
    K_VISITS,
    LAST_USE,
    NEXT,
    NO_HOME,
    PIECE,
    VALUE,
    State,
)
from coopsim.replay.loss.cache import tell
from coopsim.replay.loss.relatives import join_evicted
from coopsim.replay.memory import carve, largest_hole, list_pieces, log, run_needed, settle, uncarve
from coopsim.replay.plan import take_planned
from coopsim.replay.preferred import has_homes, home_of
from coopsim.replay.search import cheapest_value, cheapest_window, published_window


@kernel
def drop(S: State, v: int, action: int) -> None:
    """Take v out of memory: evicted by a search, released because nobody holds it, or freed for good."""
    log(S, action, v, 0)
    uncarve(S, S.V[v, PIECE])
    S.V[v, PIECE] = -1
    tell(S, v)
    if action == codes.EVICT:
        S.K[K_EVICTIONS] += 1
    elif action == codes.RELEASE:
        S.K[K_RELEASES] += 1
    if S.V[v, EVICTABLE] and action != codes.FREE:
        join_evicted(S, v)


@inlined
def _evict_window(S: State, need: int) -> bool:
    """Evict the cheapest window. Its values are collected first: pieces merge while they are freed."""
    piece, last = -1, -1
    if S.choice[C_SEARCH] == codes.SEARCH_WINDOW_PUBLISHED:
        piece, last = published_window(S, need)
    else:
        piece, last = cheapest_window(S, need, S.choice[C_SEARCH] == codes.SEARCH_WINDOW_THRIFTY)
    if piece < 0:
        return False
    n = 0
    while True:
        if S.P[piece, VALUE] >= 0:
            S.scratch[n] = S.P[piece, VALUE]
            n += 1
        if piece == last:
            break
        piece = S.P[piece, NEXT]
    for k in range(n):
        drop(S, S.scratch[k], codes.EVICT)
    return True


@inlined
def _carve(S: State, v: int) -> int:
    """Room for v as the policy places values, or -1."""
    if has_homes(S) and not S.K[K_FEW]:
        if S.V[v, EVICTABLE] == 0:
            return carve_highest(S, S.V[v, BYTES], v)
        home = home_of(S, v)
        if home != NO_HOME:
            return carve_near(S, S.V[v, BYTES], home, v)
    return carve(S, v, S.choice[C_PLACEMENT] != codes.PLACEMENT_LOW and S.V[v, EXPENSIVE] == 0)


@kernel
def _make_room(S: State, v: int) -> int:
    """Evict until v fits. Returns its piece, or -1 when nothing is left to evict."""
    piece = -1
    if S.K[K_USER_SEARCH] != 0:
        while piece < 0:
            list_pieces(S, -1)
            n = call_search(S.K[K_USER_SEARCH], S.V[v, BYTES])
            if n <= 0:
                break
            for k in range(n):
                drop(S, S.scratch[k], codes.EVICT)
            piece = _carve(S, v)
        return piece
    one_by_one = S.choice[C_SEARCH] == codes.SEARCH_GREEDY or S.choice[C_ALLOCATOR] == codes.COUNTER
    if not one_by_one:
        list_pieces(S, S.V[v, BYTES])
        if _evict_window(S, run_needed(S, v)):
            piece = _carve(S, v)
        # The caching allocator has no run of neighbours where segments are small, but gives empty ones back.
        one_by_one = S.choice[C_ALLOCATOR] == codes.CACHING
    while one_by_one and piece < 0:
        list_pieces(S, -1)
        victim = cheapest_value(S)
        if victim < 0:
            break
        drop(S, victim, codes.EVICT)
        piece = _carve(S, v)
    return piece


@kernel
def allocate(S: State, v: int) -> bool:
    """Give v a place in memory. False if there is none: the outcome is then out of memory."""
    visits_before = S.K[K_VISITS]
    piece = -1
    if S.K[K_REQUEST] >= 0:
        piece = take_planned(S, v)
    if piece < 0:
        piece = _carve(S, v)
    if piece < 0:
        started = now_ns()
        piece = _make_room(S, v)
        S.K[K_SEARCH_NS] += now_ns() - started
        S.K[K_SEARCHES] += 1
        if piece < 0:
            S.K[K_OUTCOME] = codes.OUTCOME_OOM
            S.K[K_NEEDED] = S.V[v, BYTES]
            S.K[K_LARGEST] = largest_hole(S)
            return False
        free, budget = float(S.K[K_FREE]), float(S.K[K_BUDGET])
        S.F[F_FREE] += free / budget
        S.F[F_FREE_INCL] += (free + S.V[v, BYTES]) / budget
        if free > 0:
            S.F[F_SCATTER] += 1.0 - largest_hole(S) / free
    settle(S, v, piece)
    S.P[piece, LAST_USE] = S.K[K_CLOCK]
    tell(S, v)
    log(S, codes.ALLOC, v, S.K[K_VISITS] - visits_before)
    return True
