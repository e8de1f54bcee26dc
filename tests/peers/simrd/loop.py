"""simrd's runtime (RuntimeV2EagerOptimized): bring back what an op lacks, evict before it runs."""

from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel.jit import inlined, kernel, now_ns
from tests.peers.simrd import state as s
from tests.peers.simrd.classes import found_class, join_neighbours, leave_class
from tests.peers.simrd.pool import enter, leave, lock, unlock
from tests.peers.simrd.regions import absorb, conclude, flush, restore
from tests.peers.simrd.scores import choose


@kernel
def run(S: s.SimrdState, recompute_limit: float) -> None:
    """Replay the schedule. `recompute_limit`: cost of recomputation beyond which simrd gives up as thrashing."""
    for event in range(S.E.shape[0]):
        kind, what = S.E[event, s.KIND], S.E[event, s.ID]
        if kind == s.RELEASE:
            if S.V[what, s.MATERIAL] and S.V[what, s.PINNED] == 0:
                _evict(S, what, codes.RELEASE, 0)
            continue
        if kind != s.PIN:
            _create(S, what)
            tensor, again = S.O[what, s.OUTS], False
        else:
            tensor, again = what, True
        if S.T[tensor, s.DEFINED] == 0 and not _materialise(S, tensor, again, recompute_limit):
            return
        if kind != s.PIN:
            _created(S, what)
        if kind != s.RUN and S.V[S.T[tensor, s.STORAGE], s.PINNED] == 0:
            lock(S, S.T[tensor, s.STORAGE])
            S.V[S.T[tensor, s.STORAGE], s.PINNED] = 1


@inlined
def _create(S: s.SimrdState, op: int) -> None:
    """Before op runs, its results exist, not in memory: the policies see them as evicted neighbours."""
    S.K[s.K_OP] = op
    S.K[s.K_NEW] = S.K[s.K_BORN]
    for t in range(S.O[op, s.OUTS], S.O[op + 1, s.OUTS]):
        v = S.T[t, s.STORAGE]
        if v == S.K[s.K_BORN]:
            S.K[s.K_BORN] += 1
            if S.K[s.K_POLICY] == s.EQ_CLASS:
                found_class(S, v, 0)
        if S.V[v, s.CREATED] != op:
            S.V[v, s.CREATED] = op
            S.V[v, s.COMPUTE] += S.O[op, s.COST]
    S.K[s.K_LACKED] = 0
    for k in range(S.O[op, s.ARGS], S.O[op + 1, s.ARGS]):
        if S.T[S.args[k], s.DEFINED] == 0:
            S.K[s.K_LACKED] = 1
    if S.K[s.K_REGIONS] and S.K[s.K_LACKED]:
        S.K[s.K_EAGER] = S.K[s.K_BORN] - S.K[s.K_NEW] < S.O[op + 1, s.OUTS] - S.O[op, s.OUTS]  # it makes a view
        if S.K[s.K_EAGER]:
            flush(S)


@inlined
def _created(S: s.SimrdState, op: int) -> None:
    """After op has run for the program."""
    for t in range(S.O[op, s.OUTS], S.O[op + 1, s.OUTS]):
        v = S.T[t, s.STORAGE]
        S.V[v, s.LAST] = S.K[s.K_CLOCK]
        S.V[v, s.KNOWN] = S.V[v, s.COMPUTE]
    S.K[s.K_SINCE] = op
    S.K[s.K_EAGER] = 0
    S.K[s.K_NEW] = S.K[s.K_BORN]


@kernel
def _materialise(S: s.SimrdState, tensor: int, again: bool, recompute_limit: float) -> bool:
    """Define a tensor, and first, depth first, the undefined arguments of its op. False: the replay is over."""
    F = S.F
    depth = 1
    _request(S, tensor, 0, 0)
    while depth > 0:
        frame = depth - 1
        tensor = F[frame, s.F_TENSOR]
        if F[frame, s.F_NEXT] < F[frame, s.F_END]:
            argument = S.waiting[F[frame, s.F_NEXT]]
            if S.T[argument, s.DEFINED]:
                lock(S, S.T[argument, s.STORAGE])
                F[frame, s.F_NEXT] += 1
            else:
                _request(S, argument, depth, F[frame, s.F_END])
                depth += 1
            continue
        op = S.T[tensor, s.OP]
        if not _make_room(S, op):
            return False
        _compute(S, tensor, again or depth > 1)
        for k in range(S.O[op, s.ARGS], S.O[op + 1, s.ARGS]):
            unlock(S, S.T[S.args[k], s.STORAGE])
        if S.K[s.K_RECOMPUTE_COST] > recompute_limit:
            S.K[s.K_OUTCOME] = codes.OUTCOME_THRASH
            return False
        depth -= 1
    return True


@inlined
def _request(S: s.SimrdState, tensor: int, frame: int, base: int) -> None:
    """Touch the arguments of tensor's op, lock those that are defined, and let the others wait from `base` on."""
    op, now = S.T[tensor, s.OP], S.K[s.K_CLOCK]
    end = base
    for k in range(S.O[op, s.ARGS], S.O[op + 1, s.ARGS]):
        argument = S.args[k]
        S.V[S.T[argument, s.STORAGE], s.LAST] = now
        if S.T[argument, s.DEFINED]:
            lock(S, S.T[argument, s.STORAGE])
        else:
            S.waiting[end] = argument
            end += 1
    S.F[frame, s.F_TENSOR] = tensor
    S.F[frame, s.F_NEXT] = base
    S.F[frame, s.F_END] = end


@kernel
def _make_room(S: s.SimrdState, op: int) -> bool:
    """Evict until all that op allocates fits. False: nothing is left to evict."""
    need = S.O[op, s.NEED]
    if S.K[s.K_USED] + need <= S.K[s.K_BUDGET]:
        return True
    started = now_ns()
    S.K[s.K_SEARCHES] += 1
    while S.K[s.K_USED] + need > S.K[s.K_BUDGET]:
        if S.K[s.K_HEAD] < 0:
            S.K[s.K_OUTCOME] = codes.OUTCOME_OOM
            S.K[s.K_NEEDED] = need
            break
        scores = S.K[s.K_SCORES]
        victim = choose(S)
        _evict(S, victim, codes.EVICT, S.K[s.K_SCORES] - scores)
    S.K[s.K_SEARCH_NS] += now_ns() - started
    return S.K[s.K_OUTCOME] != codes.OUTCOME_OOM


@kernel
def _evict(S: s.SimrdState, v: int, action: int, visits: int) -> None:
    """v goes from memory, under pressure or because the program holds none of its tensors any more."""
    policy = S.K[s.K_POLICY]
    if S.K[s.K_REGIONS]:
        absorb(S, v)
    S.V[v, s.MATERIAL] = 0
    S.K[s.K_USED] -= S.V[v, s.BYTES]
    leave(S, v)
    for k in range(S.V[v, s.MEMBERS], S.V[v + 1, s.MEMBERS]):
        S.T[S.members[k], s.DEFINED] = 0
    if policy == s.EQ_CLASS:
        join_neighbours(S, v)
    if action == codes.EVICT:
        S.K[s.K_EVICTIONS] += 1
    else:
        S.K[s.K_RELEASES] += 1
    _log(S, action, S.K[s.K_OP], v, visits)


@kernel
def _compute(S: s.SimrdState, tensor: int, again: bool) -> None:
    """Run the op of tensor, whose arguments are locked. Results that were there already are made twice, then freed."""
    op = S.T[tensor, s.OP]
    S.K[s.K_USED] += S.O[op, s.NEED]
    S.K[s.K_PEAK] = max(S.K[s.K_PEAK], S.K[s.K_USED])
    n = 0
    for t in range(S.O[op, s.OUTS], S.O[op + 1, s.OUTS]):
        if t != tensor:
            if S.T[t, s.DEFINED]:
                S.K[s.K_USED] -= S.T[t, s.BYTES_OF]
            n = _bring(S, t, n)
    n = _bring(S, tensor, n)
    S.K[s.K_USED] -= S.O[op, s.SPARE]
    for k in range(n):
        _log(S, codes.ALLOC, op, S.fresh[k], 0)
    _log(S, codes.RECOMPUTE if again else codes.COMPUTE, op, -1, 0)
    S.K[s.K_CLOCK] += S.O[op, s.COST]
    S.K[s.K_OPS] += 1
    if again:
        S.K[s.K_RECOMPUTES] += 1
        S.K[s.K_RECOMPUTE_COST] += S.O[op, s.COST]
    policy = S.K[s.K_POLICY]
    for k in range(n):
        if policy == s.EQ_CLASS:
            leave_class(S, S.fresh[k])
    if S.K[s.K_REGIONS]:
        if again:
            restore(S, op, n)
        else:
            conclude(S, op, n)


@inlined
def _bring(S: s.SimrdState, t: int, n: int) -> int:
    """t is defined, and its storage, if it was not in memory, the last of the pool. Returns how many have come."""
    S.T[t, s.DEFINED] = 1
    v = S.T[t, s.STORAGE]
    if S.V[v, s.MATERIAL] == 0:
        S.V[v, s.MATERIAL] = 1
        enter(S, v)
        S.fresh[n] = v
        n += 1
    return n


@inlined
def _log(S: s.SimrdState, action: int, op: int, v: int, visits: int) -> None:
    """Note an action, if this run keeps a log."""
    row = S.K[s.K_ROWS]
    if row < S.log.shape[0]:
        S.log[row, s.L_ACTION] = action
        S.log[row, s.L_OP] = op
        S.log[row, s.L_STORAGE] = v
        S.log[row, s.L_BYTES] = S.V[v, s.BYTES] if v >= 0 else 0
        S.log[row, s.L_TIME] = S.K[s.K_CLOCK] - 1
        S.log[row, s.L_VISITS] = visits
    S.K[s.K_ROWS] = row + 1
