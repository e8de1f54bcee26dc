"""One memory, whichever allocator serves it, and the log of what happens to it."""

from coopsim.simulate.allocators import arena, counter
from coopsim.simulate.allocators.blocks import put_in_order
from coopsim.simulate.allocators.caching import serve
from coopsim.simulate.allocators.small_area import carve_beside
from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.call import call_hook
from coopsim.simulate.kernel.jit import inlined, kernel


@inlined
def pin(S: s.State, v: int, by: int) -> None:
    """Change v's count of pins by `by`, and the locks of its block with it: a block with locks cannot be evicted."""
    S.V[v, s.PINS] += by
    if S.V[v, s.BLOCK] >= 0:
        S.P[S.V[v, s.BLOCK], s.LOCKED] += by


@inlined
def assign(S: s.State, v: int, block: int) -> None:
    """Record that value v lies in `block`, and lock the block by v's pins, and once more if v cannot be given up."""
    S.V[v, s.BLOCK] = block
    S.P[block, s.VALUE] = v
    losable = S.V[v, s.EVICTABLE]
    if S.choice[s.C_LOSE] != codes.LOSE_RECOMPUTE:
        losable = S.copies[v, s.OFFLOADABLE]
    S.P[block, s.LOCKED] = S.V[v, s.PINS] + 1 - losable
    S.P[block, s.COST_OF_LOSS] = s.UNKNOWN


@inlined
def carve(S: s.State, v: int, high: bool) -> int:
    """A block for value v, or -1 if there is no room now."""
    if S.choice[s.C_ALLOCATOR] == codes.ARENA:
        if S.K[s.K_BORDER] != s.NO_BORDER:
            return carve_beside(S, S.V[v, s.BYTES], high, v)
        return arena.carve(S, S.V[v, s.BYTES], high, v)
    if S.choice[s.C_ALLOCATOR] == codes.CACHING:
        block = serve.carve(S, S.V[v, s.BYTES], v)
        if block < 0:  # it has given back what it could, so that being asked is an event of its own
            log(S, codes.REFUSE, v, 0)
        return block
    return counter.carve(S, S.V[v, s.BYTES], v)


@inlined
def uncarve(S: s.State, block: int) -> None:
    """Free a block."""
    S.P[block, s.LOCKED] = 0
    if S.choice[s.C_ALLOCATOR] == codes.ARENA:
        arena.uncarve(S, block)
    elif S.choice[s.C_ALLOCATOR] == codes.CACHING:
        serve.uncarve(S, block)
    else:
        counter.uncarve(S, block)


@inlined
def largest_hole(S: s.State) -> int:
    """The largest request that would fit now."""
    if S.choice[s.C_ALLOCATOR] == codes.ARENA:
        return arena.largest_hole(S)
    if S.choice[s.C_ALLOCATOR] == codes.CACHING:
        return serve.largest_hole(S)
    return S.K[s.K_FREE]


@inlined
def list_blocks(S: s.State, need: int) -> None:
    """Before a search: the caching allocator writes its list of blocks, if need >= 0 only those that could serve it."""
    if S.choice[s.C_ALLOCATOR] == codes.CACHING:
        serve.list_blocks(S, need)
    else:
        put_in_order(S)


@inlined
def run_needed(S: s.State, v: int) -> int:
    """Bytes of neighbouring blocks that are enough for value v once they are free."""
    if S.choice[s.C_ALLOCATOR] == codes.CACHING:
        return serve.block_size(S, S.V[v, s.BYTES])
    return S.V[v, s.BYTES]


@inlined
def log(S: s.State, action: int, v: int, visits: int) -> None:
    """Append a row about value v (-1: about the op that is running)."""
    log_in(S, action, v, S.V[v, s.BLOCK] if v >= 0 else -1, visits)


@inlined
def log_in(S: s.State, action: int, v: int, block: int, visits: int) -> None:
    """The same, about v in this block (-1: none). Told to a policy of a user's that asks for such rows."""
    row = S.K[s.K_ROWS] - S.K[s.K_TAKEN]
    S.K[s.K_ROWS] += 1
    if S.log.shape[0] > 0:
        if row == S.log.shape[0]:
            _empty_log(S, row)
            row = 0
        S.log[row, s.L_ACTION] = action
        S.log[row, s.L_STEP] = S.K[s.K_STEP]
        S.log[row, s.L_OP] = S.K[s.K_OP]
        S.log[row, s.L_VALUE] = v
        S.log[row, s.L_ADDRESS] = S.P[block, s.ADDRESS] if block >= 0 else -1
        S.log[row, s.L_BYTES] = S.V[v, s.BYTES] if v >= 0 else 0
        S.log[row, s.L_TIME] = S.K[s.K_TOTAL]
        S.log[row, s.L_VISITS] = visits
    if S.K[s.K_TOLD] >> action & 1:
        tell(S, action, v if v >= 0 else S.K[s.K_OP])


@kernel
def _empty_log(S: s.State, rows: int) -> None:
    """Python takes the rows, and the log begins anew: arrays cannot grow while the core runs."""
    call_hook(S.K[s.K_LOG_HOOK], 0, rows)
    S.K[s.K_TAKEN] += rows


@kernel
def tell(S: s.State, what: int, number: int) -> None:
    """Tell a policy of a user's of an event."""
    call_hook(S.K[s.K_HOOK], what, number)


@inlined
def tell_used(S: s.State, v: int) -> None:
    """An op has read v, or made it."""
    if S.K[s.K_TOLD] >> codes.USED & 1:
        tell(S, codes.USED, v)
