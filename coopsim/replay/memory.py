"""One memory, whichever allocator serves it, and the log of what happens to it."""

from coopsim.allocators import arena, counter
from coopsim.allocators.caching import serve
from coopsim.allocators.pieces import put_in_order
from coopsim.kernel import codes
from coopsim.kernel.jit import inlined
from coopsim.kernel.state import (
    ADDRESS,
    BYTES,
    C_ALLOCATOR,
    COST_OF_LOSS,
    EVICTABLE,
    FAST,
    K_FREE,
    K_OP,
    K_ROWS,
    K_STEP,
    K_TOTAL,
    L_ACTION,
    L_ADDRESS,
    L_BYTES,
    L_OP,
    L_STEP,
    L_TIME,
    L_VALUE,
    L_VISITS,
    PIECE,
    PINS,
    UNKNOWN,
    VALUE,
    State,
)


@inlined
def pin(S: State, v: int, by: int) -> None:
    """Add to v's pins, or take away."""
    S.V[v, PINS] += by
    if S.V[v, PIECE] >= 0:
        S.P[S.V[v, PIECE], FAST] += by


@inlined
def settle(S: State, v: int, piece: int) -> None:
    """v lies in this piece now."""
    S.V[v, PIECE] = piece
    S.P[piece, VALUE] = v
    S.P[piece, FAST] = S.V[v, PINS] + 1 - S.V[v, EVICTABLE]
    S.P[piece, COST_OF_LOSS] = UNKNOWN


@inlined
def carve(S: State, v: int, high: bool) -> int:
    """A piece for value v, or -1 if there is no room as things stand."""
    if S.choice[C_ALLOCATOR] == codes.ARENA:
        return arena.carve(S, S.V[v, BYTES], high, v)
    if S.choice[C_ALLOCATOR] == codes.CACHING:
        piece = serve.carve(S, S.V[v, BYTES], v)
        if piece < 0:  # it has given back what it could, so that being asked is an event of its own
            log(S, codes.REFUSE, v, 0)
        return piece
    return counter.carve(S, S.V[v, BYTES], v)


@inlined
def uncarve(S: State, piece: int) -> None:
    """Free a piece."""
    S.P[piece, FAST] = 0
    if S.choice[C_ALLOCATOR] == codes.ARENA:
        arena.uncarve(S, piece)
    elif S.choice[C_ALLOCATOR] == codes.CACHING:
        serve.uncarve(S, piece)
    else:
        counter.uncarve(S, piece)


@inlined
def largest_hole(S: State) -> int:
    """The largest request that would fit as things stand."""
    if S.choice[C_ALLOCATOR] == codes.ARENA:
        return arena.largest_hole(S)
    if S.choice[C_ALLOCATOR] == codes.CACHING:
        return serve.largest_hole(S)
    return S.K[K_FREE]


@inlined
def list_pieces(S: State, need: int) -> None:
    """Before a search: the caching allocator writes its list of pieces, if need >= 0 only those that could serve it."""
    if S.choice[C_ALLOCATOR] == codes.CACHING:
        serve.list_pieces(S, need)
    else:
        put_in_order(S)


@inlined
def run_needed(S: State, v: int) -> int:
    """Bytes of neighbouring pieces that are enough for value v once they are free."""
    if S.choice[C_ALLOCATOR] == codes.CACHING:
        return serve.block_size(S, S.V[v, BYTES])
    return S.V[v, BYTES]


@inlined
def log(S: State, action: int, v: int, visits: int) -> None:
    """Append a row about value v (-1: about the op that is running). Rows beyond the log's end are only counted."""
    row = S.K[K_ROWS]
    S.K[K_ROWS] += 1
    if row < S.log.shape[0]:
        S.log[row, L_ACTION] = action
        S.log[row, L_STEP] = S.K[K_STEP]
        S.log[row, L_OP] = S.K[K_OP]
        S.log[row, L_VALUE] = v
        S.log[row, L_ADDRESS] = S.P[S.V[v, PIECE], ADDRESS] if v >= 0 and S.V[v, PIECE] >= 0 else -1
        S.log[row, L_BYTES] = S.V[v, BYTES] if v >= 0 else 0
        S.log[row, L_TIME] = S.K[K_TOTAL]
        S.log[row, L_VISITS] = visits
