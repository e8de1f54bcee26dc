"""simrd's runtime (RuntimeV2EagerOptimized): bring back what an op lacks, evict before it runs."""

from coopsim.kernel import codes
from coopsim.kernel.jit import inlined, kernel, now_ns
from coopsim.simrd.classes import found_class, join_neighbours, leave_class
from coopsim.simrd.pool import enter, leave, lock, unlock
from coopsim.simrd.regions import absorb, conclude, restore, settle
from coopsim.simrd.scores import choose
from coopsim.simrd.state import (
    ARGS,
    BYTES,
    BYTES_OF,
    COMPUTE,
    COST,
    CREATED,
    DEFINED,
    EQ_CLASS,
    F_END,
    F_NEXT,
    F_TENSOR,
    ID,
    K_BORN,
    K_BUDGET,
    K_CLOCK,
    K_EAGER,
    K_EVICTIONS,
    K_HEAD,
    K_LACKED,
    K_NEEDED,
    K_NEW,
    K_OP,
    K_OPS,
    K_OUTCOME,
    K_PEAK,
    K_POLICY,
    K_RECOMPUTE_COST,
    K_RECOMPUTES,
    K_REGIONS,
    K_RELEASES,
    K_ROWS,
    K_SCORES,
    K_SEARCH_NS,
    K_SEARCHES,
    K_SINCE,
    K_USED,
    KIND,
    KNOWN,
    L_ACTION,
    L_BYTES,
    L_OP,
    L_STORAGE,
    L_TIME,
    L_VISITS,
    LAST,
    MATERIAL,
    MEMBERS,
    NEED,
    OP,
    OUTS,
    PIN,
    PINNED,
    RELEASE,
    RUN,
    SPARE,
    STORAGE,
    State,
)


@kernel
def run(S: State, recompute_limit: float) -> None:
    """Replay the schedule. `recompute_limit`: cost of recomputation beyond which simrd gives up as thrashing."""
    for event in range(S.E.shape[0]):
        kind, what = S.E[event, KIND], S.E[event, ID]
        if kind == RELEASE:
            if S.V[what, MATERIAL] and S.V[what, PINNED] == 0:
                _evict(S, what, codes.RELEASE, 0)
            continue
        if kind != PIN:
            _create(S, what)
            tensor, again = S.O[what, OUTS], False
        else:
            tensor, again = what, True
        if S.T[tensor, DEFINED] == 0 and not _materialise(S, tensor, again, recompute_limit):
            return
        if kind != PIN:
            _created(S, what)
        if kind != RUN and S.V[S.T[tensor, STORAGE], PINNED] == 0:
            lock(S, S.T[tensor, STORAGE])
            S.V[S.T[tensor, STORAGE], PINNED] = 1


@inlined
def _create(S: State, op: int) -> None:
    """Before op runs, its results exist, not in memory: the policies see them as evicted neighbours."""
    S.K[K_OP] = op
    S.K[K_NEW] = S.K[K_BORN]
    for t in range(S.O[op, OUTS], S.O[op + 1, OUTS]):
        s = S.T[t, STORAGE]
        if s == S.K[K_BORN]:
            S.K[K_BORN] += 1
            if S.K[K_POLICY] == EQ_CLASS:
                found_class(S, s, 0)
        if S.V[s, CREATED] != op:
            S.V[s, CREATED] = op
            S.V[s, COMPUTE] += S.O[op, COST]
    S.K[K_LACKED] = 0
    for k in range(S.O[op, ARGS], S.O[op + 1, ARGS]):
        if S.T[S.args[k], DEFINED] == 0:
            S.K[K_LACKED] = 1
    if S.K[K_REGIONS] and S.K[K_LACKED]:
        S.K[K_EAGER] = S.K[K_BORN] - S.K[K_NEW] < S.O[op + 1, OUTS] - S.O[op, OUTS]  # it makes a view
        if S.K[K_EAGER]:
            settle(S)


@inlined
def _created(S: State, op: int) -> None:
    """After op has run for the program."""
    for t in range(S.O[op, OUTS], S.O[op + 1, OUTS]):
        s = S.T[t, STORAGE]
        S.V[s, LAST] = S.K[K_CLOCK]
        S.V[s, KNOWN] = S.V[s, COMPUTE]
    S.K[K_SINCE] = op
    S.K[K_EAGER] = 0
    S.K[K_NEW] = S.K[K_BORN]


@kernel
def _materialise(S: State, tensor: int, again: bool, recompute_limit: float) -> bool:
    """Define a tensor, and first, depth first, the undefined arguments of its op. False: the replay is over."""
    F = S.F
    depth = 1
    _request(S, tensor, 0, 0)
    while depth > 0:
        frame = depth - 1
        tensor = F[frame, F_TENSOR]
        if F[frame, F_NEXT] < F[frame, F_END]:
            argument = S.waiting[F[frame, F_NEXT]]
            if S.T[argument, DEFINED]:
                lock(S, S.T[argument, STORAGE])
                F[frame, F_NEXT] += 1
            else:
                _request(S, argument, depth, F[frame, F_END])
                depth += 1
            continue
        op = S.T[tensor, OP]
        if not _make_room(S, op):
            return False
        _compute(S, tensor, again or depth > 1)
        for k in range(S.O[op, ARGS], S.O[op + 1, ARGS]):
            unlock(S, S.T[S.args[k], STORAGE])
        if S.K[K_RECOMPUTE_COST] > recompute_limit:
            S.K[K_OUTCOME] = codes.OUTCOME_THRASH
            return False
        depth -= 1
    return True


@inlined
def _request(S: State, tensor: int, frame: int, base: int) -> None:
    """Touch the arguments of tensor's op, lock those that are defined, and let the others wait from `base` on."""
    op, now = S.T[tensor, OP], S.K[K_CLOCK]
    end = base
    for k in range(S.O[op, ARGS], S.O[op + 1, ARGS]):
        argument = S.args[k]
        S.V[S.T[argument, STORAGE], LAST] = now
        if S.T[argument, DEFINED]:
            lock(S, S.T[argument, STORAGE])
        else:
            S.waiting[end] = argument
            end += 1
    S.F[frame, F_TENSOR] = tensor
    S.F[frame, F_NEXT] = base
    S.F[frame, F_END] = end


@kernel
def _make_room(S: State, op: int) -> bool:
    """Evict until all that op allocates fits. False: nothing is left to evict."""
    need = S.O[op, NEED]
    if S.K[K_USED] + need <= S.K[K_BUDGET]:
        return True
    started = now_ns()
    S.K[K_SEARCHES] += 1
    while S.K[K_USED] + need > S.K[K_BUDGET]:
        if S.K[K_HEAD] < 0:
            S.K[K_OUTCOME] = codes.OUTCOME_OOM
            S.K[K_NEEDED] = need
            break
        scores = S.K[K_SCORES]
        victim = choose(S)
        _evict(S, victim, codes.EVICT, S.K[K_SCORES] - scores)
    S.K[K_SEARCH_NS] += now_ns() - started
    return S.K[K_OUTCOME] != codes.OUTCOME_OOM


@kernel
def _evict(S: State, s: int, action: int, visits: int) -> None:
    """s goes from memory, under pressure or because the program holds none of its tensors any more."""
    policy = S.K[K_POLICY]
    if S.K[K_REGIONS]:
        absorb(S, s)
    S.V[s, MATERIAL] = 0
    S.K[K_USED] -= S.V[s, BYTES]
    leave(S, s)
    for k in range(S.V[s, MEMBERS], S.V[s + 1, MEMBERS]):
        S.T[S.members[k], DEFINED] = 0
    if policy == EQ_CLASS:
        join_neighbours(S, s)
    if action == codes.EVICT:
        S.K[K_EVICTIONS] += 1
    else:
        S.K[K_RELEASES] += 1
    _log(S, action, S.K[K_OP], s, visits)


@kernel
def _compute(S: State, tensor: int, again: bool) -> None:
    """Run the op of tensor, whose arguments are locked. Results that were there already are made twice, then freed."""
    op = S.T[tensor, OP]
    S.K[K_USED] += S.O[op, NEED]
    S.K[K_PEAK] = max(S.K[K_PEAK], S.K[K_USED])
    n = 0
    for t in range(S.O[op, OUTS], S.O[op + 1, OUTS]):
        if t != tensor:
            if S.T[t, DEFINED]:
                S.K[K_USED] -= S.T[t, BYTES_OF]
            n = _bring(S, t, n)
    n = _bring(S, tensor, n)
    S.K[K_USED] -= S.O[op, SPARE]
    for k in range(n):
        _log(S, codes.ALLOC, op, S.fresh[k], 0)
    _log(S, codes.RECOMPUTE if again else codes.COMPUTE, op, -1, 0)
    S.K[K_CLOCK] += S.O[op, COST]
    S.K[K_OPS] += 1
    if again:
        S.K[K_RECOMPUTES] += 1
        S.K[K_RECOMPUTE_COST] += S.O[op, COST]
    policy = S.K[K_POLICY]
    for k in range(n):
        if policy == EQ_CLASS:
            leave_class(S, S.fresh[k])
    if S.K[K_REGIONS]:
        if again:
            restore(S, op, n)
        else:
            conclude(S, op, n)


@inlined
def _bring(S: State, t: int, n: int) -> int:
    """t is defined, and its storage, if it was not in memory, the last of the pool. Returns how many have come."""
    S.T[t, DEFINED] = 1
    s = S.T[t, STORAGE]
    if S.V[s, MATERIAL] == 0:
        S.V[s, MATERIAL] = 1
        enter(S, s)
        S.fresh[n] = s
        n += 1
    return n


@inlined
def _log(S: State, action: int, op: int, s: int, visits: int) -> None:
    """Note an action, if this run keeps a log."""
    row = S.K[K_ROWS]
    if row < S.log.shape[0]:
        S.log[row, L_ACTION] = action
        S.log[row, L_OP] = op
        S.log[row, L_STORAGE] = s
        S.log[row, L_BYTES] = S.V[s, BYTES] if s >= 0 else 0
        S.log[row, L_TIME] = S.K[K_CLOCK] - 1
        S.log[row, L_VISITS] = visits
    S.K[K_ROWS] = row + 1
