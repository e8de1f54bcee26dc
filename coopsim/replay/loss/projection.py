"""What static DTR projects for evicted values (MegEngine's seq_dtr.cpp)."""

from coopsim.kernel import state as s
from coopsim.kernel.jit import inlined, kernel
from coopsim.replay.loss.cache import is_evicted


@kernel
def project(S: s.State) -> None:
    """Bring W up to date for all evicted values; all terms count along every path.

    A value's producer comes before it and its users after it, so one pass up and one pass down are enough.
    """
    V, W = S.V, S.W
    for v in range(V.shape[0]):
        if is_evicted(V, v):
            back, memory = back_and_memory(S, v)
            W[v, s.W_BACK] = back
            W[v, s.W_MEMORY] = memory
    for v in range(V.shape[0] - 1, -1, -1):
        if is_evicted(V, v):
            W[v, s.W_FORWARD] = forward(S, v)


@inlined
def back_and_memory(S: s.State, v: int) -> tuple[float, float]:
    """Cost to bring v back, and the memory for it: its own and, path-counted, those of evicted inputs."""
    back, memory = float(S.V[v, s.OWN]), float(S.V[v, s.BYTES])
    op = S.V[v, s.PRODUCER]
    if op < 0:
        return back, memory
    for k in range(S.O[op, s.INS], S.O[op + 1, s.INS]):
        if is_evicted(S.V, S.ins[k]):
            back += S.W[S.ins[k], s.W_BACK]
            memory += S.W[S.ins[k], s.W_MEMORY]
    return back, memory


@inlined
def forward(S: s.State, v: int) -> float:
    """1 + the evicted descendants of v, path-counted."""
    total = 1.0
    for j in range(S.V[v, s.USES], S.V[v, s.USES_END]):
        op = S.uses[j]
        for k in range(S.O[op, s.OUTS], S.O[op, s.TEMPS]):
            if is_evicted(S.V, S.outs[k]):
                total += S.W[S.outs[k], s.W_FORWARD]
    return total
