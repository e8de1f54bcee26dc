"""The main loop: go through the program, run its ops, drop what it drops, iteration after iteration."""

from coopsim.simulate.allocators import arena
from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import kernel
from coopsim.simulate.replay.evict import allocate, drop
from coopsim.simulate.replay.evicted_sets import join_set, leave_class
from coopsim.simulate.replay.host import discard, hand_on, offloads
from coopsim.simulate.replay.loss import forget
from coopsim.simulate.replay.loss_cache import invalidate
from coopsim.simulate.replay.memory import assign, log, tell
from coopsim.simulate.replay.plan import follows_plan, stays
from coopsim.simulate.replay.preferred import end_step, has_preferred
from coopsim.simulate.replay.release import drop_unneeded, try_banish
from coopsim.simulate.replay.run_op import run_op


@kernel
def run(S: s.State, steps: int, overhead_limit: float) -> None:
    """Replay until `steps` steps are done. The outcome and all counters are in S.K, the actions in S.log."""
    begins = S.K[s.K_STEPS] == 0 and S.K[s.K_HEAD] < 0  # with 0 steps it only places what is there at the start
    if begins and not _place_initial(S):
        return
    base = 0  # cost of the steps so far without recomputation
    event = S.K[s.K_EVENT]
    for step in range(S.K[s.K_STEPS]):
        base += S.step_cost[step % S.step_cost.shape[0]]
    for step in range(S.K[s.K_STEPS], steps):
        S.K[s.K_STEP] = step
        S.K[s.K_STEP_CLOCK] = S.K[s.K_CLOCK]
        if S.K[s.K_TOLD] >> codes.STEP & 1:
            tell(S, codes.STEP, step)
        base += S.step_cost[step % S.step_cost.shape[0]]
        while S.E[event, s.KIND] != s.END_STEP:
            if S.E[event, s.KIND] == s.RUN:
                if not run_op(S, S.E[event, s.ID]):
                    return
                if S.K[s.K_TOTAL] > overhead_limit * base:
                    S.K[s.K_OUTCOME] = codes.OUTCOME_THRASH
                    return
            elif S.E[event, s.KIND] == s.DROP:
                _program_drops(S, S.E[event, s.ID])
            elif S.E[event, s.KIND] == s.DROP_ONLY:
                S.V[S.E[event, s.ID], s.LIVE] = 0
            else:
                _nothing_needs(S, S.E[event, s.ID])
            event += 1
        event += 1
        if has_preferred(S):
            end_step(S)
        if event == S.E.shape[0]:
            _end_iteration(S)
            event = 0
    S.K[s.K_STEPS] = steps
    S.K[s.K_EVENT] = event


@kernel
def _place_initial(S: s.State) -> bool:
    """Allocate what is alive when the sequence starts."""
    if S.choice[s.C_ALLOCATOR] == codes.ARENA:
        arena.reset(S)
    for k in range(S.initial.shape[0]):
        if not allocate(S, S.initial[k]):
            return False
        S.V[S.initial[k], s.LIVE] = 1
    return True


@kernel
def _program_drops(S: s.State, v: int) -> None:
    """The program's last reference to v goes. An evictable value stays recomputable, unless it is banished."""
    S.V[v, s.LIVE] = 0
    discard(S, v)
    if S.V[v, s.EVICTABLE] and follows_plan(S):
        if S.V[v, s.BLOCK] >= 0 and not stays(S, v):
            drop(S, v, codes.RELEASE)
    elif S.choice[s.C_RELEASE] == codes.RELEASE_BANISH and S.V[v, s.EVICTABLE]:
        try_banish(S, v)
    elif S.choice[s.C_RELEASE] == codes.RELEASE_NEEDED and S.V[v, s.EVICTABLE]:
        drop_unneeded(S, v)
    elif S.V[v, s.BLOCK] >= 0:
        if S.V[v, s.EVICTABLE] == 0:
            drop(S, v, codes.FREE)
        elif S.choice[s.C_RELEASE] in (codes.RELEASE_EAGER, codes.RELEASE_COUNTED):
            drop(S, v, codes.RELEASE)


@kernel
def _nothing_needs(S: s.State, v: int) -> None:
    """Nothing can need v any more. If it is resident, its set takes in those of missing relatives even so (OneFlow)."""
    discard(S, v)
    if S.V[v, s.BLOCK] >= 0:
        drop(S, v, codes.FREE)
        if S.V[v, s.EVICTABLE] and S.choice[s.C_COST] == codes.COST_SET:
            join_set(S, v)
    else:
        invalidate(S, v)
        leave_class(S, v)
    S.V[v, s.MADE] = 0  # nobody counts it as evicted any more


@kernel
def _end_iteration(S: s.State) -> None:
    """Free what nobody holds; hand on what stays; forget who was evicted with whom."""
    S.K[s.K_OP] = -1
    for v in range(S.V.shape[0]):
        if S.V[v, s.LIVE] == 0:
            discard(S, v)
        if S.V[v, s.BLOCK] >= 0 and S.V[v, s.LIVE] == 0:
            drop(S, v, codes.FREE)
    n = S.carry.shape[0]
    for k in range(n):
        S.scratch[k] = S.V[S.carry[k, s.FROM], s.BLOCK]
    for k in range(n):
        S.V[S.carry[k, s.FROM], s.BLOCK] = s.NOWHERE
        S.V[S.carry[k, s.FROM], s.LIVE] = 0
    for k in range(n):
        heir, block = S.carry[k, s.TO], S.scratch[k]
        S.V[heir, s.BLOCK] = block
        if block >= 0:
            assign(S, heir, block)
        S.V[heir, s.LIVE] = 1
        if heir != S.carry[k, s.FROM] and block >= 0:
            log(S, codes.MOVE, heir, 0)
    if offloads(S):
        hand_on(S)
    forget(S)
