"""Copies to the host and back: which values may be copied, what that costs, the two engines, the host's memory.

docs/replay.md is the specification. Nothing here is asked or done where the policy's `lose` is `recompute`:
`S.copies` has no rows then.
"""

from coopsim.cards import engine
from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.simulate.replay.loss import join_evicted
from coopsim.simulate.replay.loss_cache import invalidate
from coopsim.simulate.replay.memory import log

_span = inlined(engine.span)


@inlined
def offloads(S: s.State) -> bool:
    """Whether values may be offloaded at all."""
    return S.choice[s.C_LOSE] != codes.LOSE_RECOMPUTE


@inlined
def can_recompute(S: s.State, v: int) -> bool:
    """Whether v, which is resident, may be lost so that an op would run again to make it."""
    return (S.V[v, s.EVICTABLE] == 1) & ((S.choice[s.C_LOSE] == codes.LOSE_EITHER) | (S.V[v, s.LIVE] == 0))


@inlined
def room_on_host(S: s.State) -> int:
    """Bytes for another copy, if those of values that are resident go."""
    return S.K[s.K_HOST_BUDGET] - S.K[s.K_HOST_USED] + S.K[s.K_HOST_SPARE]


@inlined
def can_offload(S: s.State, v: int, room: int) -> bool:
    """Whether v, which is resident, may be lost so that it would be fetched: the host has a copy, or room for one."""
    copied = S.copies[v, s.HOST_AT] != s.NO_COPY
    return (S.copies[v, s.OFFLOADABLE] == 1) & (copied | ((S.V[v, s.LIVE] == 1) & (room >= S.V[v, s.BYTES])))


@inlined
def price(S: s.State, v: int) -> int:
    """ns of copying for v if it is offloaded now: back, and there if the host has no copy."""
    return S.copies[v, s.COPY_NS] * (2 if S.copies[v, s.HOST_AT] == s.NO_COPY else 1)


@inlined
def _copy_end(S: s.State, v: int, mine: int, other: int) -> int:
    """Give a copy of v to the engine `mine` (K_OUT_FREE, K_IN_FREE). When it ends."""
    K = S.K
    _, K[mine] = _span(K[s.K_TOTAL], K[mine], K[other], S.copies[v, s.COPY_NS], K[s.K_RATE], K[s.K_SHARED_RATE])
    return K[mine]


@inlined
def wait(S: s.State, until: int) -> None:
    """The ops wait for a copy that ends then."""
    if until > S.K[s.K_TOTAL]:
        S.K[s.K_STALL] += until - S.K[s.K_TOTAL]
        S.K[s.K_TOTAL] = until


@kernel
def offload(S: s.State, v: int) -> None:
    """Begin to copy v, which is resident, to the host, which has room or can make some."""
    nbytes = S.V[v, s.BYTES]
    u = 0
    while S.K[s.K_HOST_USED] + nbytes > S.K[s.K_HOST_BUDGET]:
        if S.V[u, s.BLOCK] >= 0 and S.copies[u, s.HOST_AT] != s.NO_COPY:
            discard(S, u)
        u += 1
    S.K[s.K_HOST_USED] += nbytes
    S.K[s.K_HOST_SPARE] += nbytes
    S.K[s.K_HOST_PEAK] = max(S.K[s.K_HOST_PEAK], S.K[s.K_HOST_USED])
    S.K[s.K_OFFLOADS] += 1
    S.K[s.K_OFFLOADED_BYTES] += nbytes
    S.copies[v, s.HOST_AT] = _copy_end(S, v, s.K_OUT_FREE, s.K_IN_FREE)
    log(S, codes.OFFLOAD, v, 0)


@kernel
def discard(S: s.State, v: int) -> None:
    """The host's copy of v goes, if there is one. If v was nowhere else, it is missing from now on."""
    if not offloads(S) or S.copies[v, s.HOST_AT] == s.NO_COPY:
        return
    log(S, codes.DISCARD, v, 0)
    S.copies[v, s.HOST_AT] = s.NO_COPY
    S.K[s.K_HOST_USED] -= S.V[v, s.BYTES]
    if S.V[v, s.BLOCK] >= 0:
        S.K[s.K_HOST_SPARE] -= S.V[v, s.BYTES]
    elif S.V[v, s.BLOCK] == s.ON_HOST:
        S.V[v, s.BLOCK] = s.NOWHERE
        invalidate(S, v)
        if S.V[v, s.EVICTABLE]:
            join_evicted(S, v)


@inlined
def is_back(S: s.State, v: int) -> None:
    """v is resident again, and the host may still have a copy."""
    if offloads(S) and S.copies[v, s.HOST_AT] != s.NO_COPY:
        S.K[s.K_HOST_SPARE] += S.V[v, s.BYTES]


@kernel
def fetch(S: s.State, v: int) -> None:
    """Begin to copy v from the host, to bytes that it has been given."""
    S.copies[v, s.FETCHED_AT] = _copy_end(S, v, s.K_IN_FREE, s.K_OUT_FREE)
    S.K[s.K_FETCHES] += 1
    S.K[s.K_FETCHED_BYTES] += S.V[v, s.BYTES]
    log(S, codes.FETCH, v, 0)


@kernel
def wait_for_inputs(S: s.State, op: int) -> None:
    """The op waits for the fetches of its inputs."""
    for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
        wait(S, S.copies[S.ins[k], s.FETCHED_AT])


@kernel
def hand_on(S: s.State) -> None:
    """At the end of an iteration, what is handed on takes its copy along. (BLOCK is not its business.)"""
    n = S.carry.shape[0]
    for k in range(n):
        S.visit[k] = S.copies[S.carry[k, s.FROM], s.HOST_AT]
        S.copies[S.carry[k, s.FROM], s.HOST_AT] = s.NO_COPY
    for k in range(n):
        S.copies[S.carry[k, s.TO], s.HOST_AT] = S.visit[k]
