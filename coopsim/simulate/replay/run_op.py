"""Run one op of the program: bring back what it needs, make room for what it makes."""

from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.replay.evict import allocate, drop, evict_to_host
from coopsim.simulate.replay.evicted_sets import hand_on_node
from coopsim.simulate.replay.host import (
    can_offload,
    discard,
    fetch,
    is_back,
    offload,
    offloads,
    room_on_host,
    wait,
    wait_for_inputs,
)
from coopsim.simulate.replay.loss import is_needed, leave_evicted
from coopsim.simulate.replay.loss_cache import invalidate
from coopsim.simulate.replay.memory import assign, log, log_in, pin, tell_used
from coopsim.simulate.replay.plan import follows_plan, leaves
from coopsim.simulate.replay.release import try_banish


@kernel
def copy_by_plan(S: s.State, op: int) -> bool:
    """Before op of the program is served: what is copied leaves, and the copies due begin. False: out of memory.

    planning/dry_run_copies.py goes through copies in the same order, and says what only a replay has to check.
    """
    left = False
    while S.K[s.K_AWAY] < S.away.shape[0] and S.away[S.K[s.K_AWAY], s.A_OP] <= op:
        at = S.K[s.K_AWAY]
        v = S.away[at, s.A_VALUE]
        if S.away[at, s.A_WHAT] == s.BACK:
            if not left:
                _leave_when_copied(S, -1)
                left = True
            S.copies[v, s.LEAVES] = 0
            if S.V[v, s.BLOCK] == s.ON_HOST:
                if not allocate(S, v):
                    return False
                fetch(S, v)
                if not follows_plan(S):
                    return True
        elif S.away[at, s.A_WHAT] == s.LEFT:
            _leave_when_copied(S, v)
        elif S.V[v, s.BLOCK] >= 0 and S.V[v, s.PINS] == 0 and can_offload(S, v, room_on_host(S)):
            if S.copies[v, s.HOST_AT] == s.NO_COPY:
                offload(S, v)
            S.copies[v, s.LEAVES] = 1
        S.K[s.K_AWAY] += 1
    if not left:
        _leave_when_copied(S, -1)
    return True


@kernel
def _leave_when_copied(S: s.State, awaited: int) -> None:
    """Evict what the plan has copied, in its order, up to the first copy that is not whole.

    The ops wait for those up to the value `awaited`, unless that is -1.
    """
    while S.K[s.K_LEFT] < S.K[s.K_AWAY]:
        v = S.away[S.K[s.K_LEFT], s.A_VALUE]
        if S.away[S.K[s.K_LEFT], s.A_WHAT] == s.OUT and S.copies[v, s.LEAVES]:
            if awaited >= 0 and S.copies[awaited, s.LEAVES]:
                wait(S, S.copies[v, s.HOST_AT])
            if S.copies[v, s.HOST_AT] > S.K[s.K_TOTAL]:
                return
            S.copies[v, s.LEAVES] = 0
            if S.V[v, s.BLOCK] >= 0 and S.copies[v, s.HOST_AT] != s.NO_COPY:
                evict_to_host(S, v)
        S.K[s.K_LEFT] += 1


@kernel
def run_op(S: s.State, op: int) -> bool:
    """Run op of the program, and first, depth first, those that make its missing inputs. False: the replay is over."""
    S.K[s.K_NOW] = op
    if offloads(S) and follows_plan(S):
        S.K[s.K_OP] = op
        if not copy_by_plan(S, op):
            return False
    if not _pin_inputs(S, op):
        return False
    stack, depth = S.stack, 1
    stack[0] = op
    while depth > 0:
        p = stack[depth - 1]
        missing = -1
        for k in range(S.O[p, s.INS], S.O[p + 1, s.INS]):
            if S.V[S.ins[k], s.BLOCK] == s.ON_HOST:
                S.K[s.K_OP] = p
                if not allocate(S, S.ins[k]):
                    return False
                fetch(S, S.ins[k])
            elif S.V[S.ins[k], s.BLOCK] < 0:
                missing = S.ins[k]
                break
        if missing >= 0:
            stack[depth] = S.V[missing, s.PRODUCER]
            depth += 1
        else:
            if not _execute(S, p, depth > 1):
                return False
            depth -= 1
    return True


@kernel
def _pin_inputs(S: s.State, op: int) -> bool:
    """Pin the inputs of op and of every op that must run again for it. False if one of them has no producer: lost."""
    stack, depth = S.stack, 1
    stack[0] = op
    S.O[op, s.PENDING] = 1
    S.K[s.K_OP] = op
    while depth > 0:
        depth -= 1
        p = stack[depth]
        for k in range(S.O[p, s.INS], S.O[p + 1, s.INS]):
            v = S.ins[k]
            pin(S, v, 1)
            if S.V[v, s.BLOCK] == s.NOWHERE:
                if S.V[v, s.SAVED] == 0 or S.V[v, s.UPDATED]:
                    S.V[v, s.UNSAVED] = S.K[s.K_NOW] + 1
                producer = S.V[v, s.PRODUCER]
                if producer < 0:
                    S.K[s.K_OUTCOME] = codes.OUTCOME_LOST
                    return False
                if S.O[producer, s.PENDING] == 0:
                    S.O[producer, s.PENDING] = 1
                    stack[depth] = producer
                    depth += 1
    return True


@kernel
def _execute(S: s.State, op: int, again: bool) -> bool:
    """Run op, whose inputs are resident and pinned. False: out of memory."""
    S.K[s.K_OP] = op
    S.O[op, s.PENDING] = 0
    for k in range(S.O[op, s.OUTS], S.O[op + 1, s.OUTS]):
        w = S.outs[k]
        pin(S, w, 1)
        if S.V[w, s.BLOCK] < 0 and not _takes_over(S, w, again) and not allocate(S, w):
            return False
    if offloads(S):
        wait_for_inputs(S, op)
    log(S, codes.RECOMPUTE if again else codes.COMPUTE, -1, 0)
    now = S.K[s.K_CLOCK]
    for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
        S.P[S.V[S.ins[k], s.BLOCK], s.LAST_USE] = now
        tell_used(S, S.ins[k])
    for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
        if S.V[S.outs[k], s.BLOCK] < 0:
            log_in(S, codes.MOVE, S.outs[k], S.V[S.V[S.outs[k], s.OLDER], s.BLOCK], 0)
    S.K[s.K_OPS] += 1
    S.K[s.K_CLOCK] += S.O[op, s.DECIDE]
    S.K[s.K_TOTAL] += S.O[op, s.COST]
    if again:
        S.K[s.K_RECOMPUTES] += 1
        S.K[s.K_RECOMPUTE_COST] += S.O[op, s.COST]

    inputs_first = S.choice[s.C_DEAD] == codes.DEAD_UNSAVED
    if inputs_first:
        _end_temporaries(S, op)
        _end_inputs(S, op, True)
    for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
        w = S.outs[k]
        if S.V[w, s.BLOCK] < 0:
            _take_over(S, w, again)
        S.P[S.V[w, s.BLOCK], s.LAST_USE] = now
        tell_used(S, w)
        if S.V[w, s.EVICTABLE]:
            leave_evicted(S, w)
        if not again:
            S.V[w, s.LIVE] = 1
            S.V[w, s.MADE] = 1
    if not inputs_first:
        _end_temporaries(S, op)
    for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
        pin(S, S.outs[k], -1)
        _let_go(S, S.outs[k])
    if not inputs_first:
        _end_inputs(S, op, False)
    if follows_plan(S):
        _leave_by_plan(S, op, again)
    return True


@inlined
def _end_temporaries(S: s.State, op: int) -> None:
    """The op has run, its workspaces go."""
    for k in range(S.O[op, s.TEMPS], S.O[op + 1, s.OUTS]):
        pin(S, S.outs[k], -1)
        drop(S, S.outs[k], codes.FREE)


@inlined
def _end_inputs(S: s.State, op: int, before_outputs: bool) -> None:
    """The op has run: its inputs lose its pins, and those that nobody needs go.

    before_outputs: outputs have not yet taken the places of the versions before them, which stay for that.
    """
    for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
        v = S.ins[k]
        pin(S, v, -1)
        if not before_outputs or not _is_taken_over(S, op, v):
            if S.choice[s.C_RELEASE] == codes.RELEASE_BANISH and S.V[v, s.LIVE] == 0 and not follows_plan(S):
                try_banish(S, v)
            _let_go(S, v)


@inlined
def _is_taken_over(S: s.State, op: int, v: int) -> bool:
    """Whether an output of op, which has no block yet, will take v's."""
    taken = False
    for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
        taken |= S.V[S.outs[k], s.BLOCK] < 0 and S.V[S.outs[k], s.OLDER] == v
    return taken


@kernel
def _leave_by_plan(S: s.State, op: int, again: bool) -> None:
    for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
        if leaves(S, S.outs[k], again):
            drop(S, S.outs[k], codes.EVICT)
    for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
        if leaves(S, S.ins[k], again):
            drop(S, S.ins[k], codes.EVICT)


@inlined
def _takes_over(S: s.State, w: int, again: bool) -> bool:
    """Whether w, a new version, will be written over the one before: not if another pending op still needs that."""
    older = S.V[w, s.OLDER]
    if older < 0 or S.V[w, s.IN_PLACE] == 0:
        return False
    once = S.choice[s.C_IN_PLACE] == codes.IN_PLACE_FIRST_RUN
    if S.V[older, s.PINS] == 1 and not (once and again):
        return True
    S.K[s.K_COPIES] += 1
    return False


@inlined
def _take_over(S: s.State, w: int, again: bool) -> None:
    """w takes the place of the version before it, which is thereby evicted (recomputable in-place, docs/replay.md)."""
    older = S.V[w, s.OLDER]
    discard(S, older)
    is_back(S, w)
    block = S.V[older, s.BLOCK]
    S.V[older, s.BLOCK] = s.NOWHERE
    assign(S, w, block)
    invalidate(S, older)
    invalidate(S, w)
    if not again:
        S.V[older, s.LIVE] = 0
        S.V[older, s.UPDATED] = 1
        if S.choice[s.C_NODE] == codes.NODE_STORAGE and S.V[w, s.EVICTABLE]:
            hand_on_node(S, older, w)


@inlined
def _let_go(S: s.State, v: int) -> None:
    """A value without pins goes, if the policy does not want it; a banished one always."""
    if S.V[v, s.PINS] == 0 and S.V[v, s.BLOCK] >= 0 and S.V[v, s.EVICTABLE] and not follows_plan(S):
        if S.V[v, s.MADE] == 0 and S.V[v, s.LIVE] == 0:  # banished, and made again only as a sibling was needed
            drop(S, v, codes.FREE)
        elif _is_unwanted(S, v):
            S.V[v, s.UNSAVED] = 0
            drop(S, v, codes.RELEASE)


@inlined
def _is_unwanted(S: s.State, v: int) -> bool:
    dead = S.choice[s.C_DEAD]
    if dead == codes.DEAD_UNSAVED:
        return S.V[v, s.UNSAVED] == S.K[s.K_NOW] + 1
    if S.V[v, s.LIVE]:
        return False
    return dead == codes.DEAD_RELEASE or (dead == codes.DEAD_NEEDED and not is_needed(S, v))
