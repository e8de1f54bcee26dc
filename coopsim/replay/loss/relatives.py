"""What the absence of a value means to its relatives. Of the costs of loss (types.Cost) each keeps what it needs."""

from coopsim.kernel import codes
from coopsim.kernel import state as s
from coopsim.kernel.jit import inlined, kernel
from coopsim.replay.loss.classes import join_class, leave_class
from coopsim.replay.loss.union_find import join_set, leave_set
from coopsim.replay.memory import pin


@kernel
def join_evicted(S: s.State, v: int) -> None:
    """v has gone, and can be made again."""
    if S.choice[s.C_COST] == codes.COST_SET:
        join_set(S, v)
    elif S.choice[s.C_COST] == codes.COST_CLASSES:
        join_class(S, v)


@inlined
def leave_evicted(S: s.State, v: int) -> None:
    """v is back, or banished."""
    if S.choice[s.C_COST] == codes.COST_SET:
        leave_set(S, v)
    elif S.choice[s.C_COST] == codes.COST_CLASSES:
        leave_class(S, v)


@kernel
def forget(S: s.State) -> None:
    """A new iteration of the trace: nothing is made yet, nobody is evicted or held."""
    V = S.V
    S.K[s.K_CLASSES] = 0
    for v in range(V.shape[0]):
        V[v, s.PARENT] = V[v, s.NODE] = v
        V[v, s.SET] = V[v, s.OWN]
        V[v, s.MADE] = 0
        V[v, s.CLASS] = -1
        pin(S, v, -V[v, s.HELD])
        V[v, s.HELD] = 0
        V[v, s.UPDATED] = V[v, s.UNSAVED] = 0
        V[v, s.NEXT_AT] = V[v, s.USES]
        if V[v, s.BLOCK] >= 0:
            S.P[V[v, s.BLOCK], s.COST_OF_LOSS] = s.UNKNOWN
    for root in range(S.dependents.shape[0]):
        S.dependents[root] = s.LAST
    for edge in range(S.edges.shape[0]):
        S.edges[edge] = s.UNLISTED
