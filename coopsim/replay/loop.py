"""The main loop: go through the program, run its ops, drop what it drops, round after round."""

from coopsim.allocators import arena
from coopsim.kernel import codes
from coopsim.kernel.jit import kernel
from coopsim.kernel.state import (
    C_ALLOCATOR,
    C_RELEASE,
    DROP,
    END_STEP,
    EVICTABLE,
    FROM,
    ID,
    K_CLOCK,
    K_EVENT,
    K_HEAD,
    K_OP,
    K_OUTCOME,
    K_STEP,
    K_STEP_CLOCK,
    K_STEPS,
    K_TOTAL,
    KIND,
    LIVE,
    PIECE,
    RUN,
    TO,
    State,
)
from coopsim.replay.evict import allocate, drop
from coopsim.replay.loss.relatives import forget
from coopsim.replay.memory import log, settle
from coopsim.replay.plan import follows_plan, stays
from coopsim.replay.preferred import end_step, has_homes
from coopsim.replay.release import drop_unneeded, try_banish
from coopsim.replay.run_op import run_op


@kernel
def run(S: State, steps: int, overhead_limit: float) -> None:
    """Replay until `steps` steps are done. The outcome and all counters are in S.K, the actions in S.log."""
    begins = S.K[K_STEPS] == 0 and S.K[K_HEAD] < 0  # with 0 steps it only places what is there at the start
    if begins and not _place_initial(S):
        return
    base = 0  # cost of the steps so far without recomputation
    event = S.K[K_EVENT]
    for step in range(S.K[K_STEPS]):
        base += S.step_cost[step % S.step_cost.shape[0]]
    for step in range(S.K[K_STEPS], steps):
        S.K[K_STEP] = step
        S.K[K_STEP_CLOCK] = S.K[K_CLOCK]
        base += S.step_cost[step % S.step_cost.shape[0]]
        while S.E[event, KIND] != END_STEP:
            if S.E[event, KIND] == RUN:
                if not run_op(S, S.E[event, ID]):
                    return
                if S.K[K_TOTAL] > overhead_limit * base:
                    S.K[K_OUTCOME] = codes.OUTCOME_THRASH
                    return
            elif S.E[event, KIND] == DROP:
                _program_drops(S, S.E[event, ID])
            event += 1
        event += 1
        if has_homes(S):
            end_step(S)
        if event == S.E.shape[0]:
            _end_round(S)
            event = 0
    S.K[K_STEPS] = steps
    S.K[K_EVENT] = event


@kernel
def _place_initial(S: State) -> bool:
    """Allocate what is alive when the sequence starts."""
    if S.choice[C_ALLOCATOR] == codes.ARENA:
        arena.reset(S)
    for k in range(S.initial.shape[0]):
        if not allocate(S, S.initial[k]):
            return False
        S.V[S.initial[k], LIVE] = 1
    return True


@kernel
def _program_drops(S: State, v: int) -> None:
    """The program's last reference to v goes. An evictable value stays recomputable, unless it is banished."""
    S.V[v, LIVE] = 0
    if S.V[v, EVICTABLE] and follows_plan(S):
        if S.V[v, PIECE] >= 0 and not stays(S, v):
            drop(S, v, codes.RELEASE)
    elif S.choice[C_RELEASE] == codes.RELEASE_BANISH and S.V[v, EVICTABLE]:
        try_banish(S, v)
    elif S.choice[C_RELEASE] == codes.RELEASE_NEEDED and S.V[v, EVICTABLE]:
        drop_unneeded(S, v)
    elif S.V[v, PIECE] >= 0 and (S.choice[C_RELEASE] == codes.RELEASE_EAGER or not S.V[v, EVICTABLE]):
        drop(S, v, codes.RELEASE if S.V[v, EVICTABLE] else codes.FREE)


@kernel
def _end_round(S: State) -> None:
    """Free what nobody holds; hand on what stays; forget who was evicted with whom."""
    S.K[K_OP] = -1
    for v in range(S.V.shape[0]):
        if S.V[v, PIECE] >= 0 and S.V[v, LIVE] == 0:
            drop(S, v, codes.FREE)
    n = S.C.shape[0]
    for k in range(n):
        S.scratch[k] = S.V[S.C[k, FROM], PIECE]
    for k in range(n):
        S.V[S.C[k, FROM], PIECE] = -1
        S.V[S.C[k, FROM], LIVE] = 0
    for k in range(n):
        heir, piece = S.C[k, TO], S.scratch[k]
        settle(S, heir, piece)
        S.V[heir, LIVE] = 1
        if heir != S.C[k, FROM]:
            log(S, codes.MOVE, heir, 0)
    forget(S)
