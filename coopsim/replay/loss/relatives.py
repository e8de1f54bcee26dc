"""What the absence of a value means to its relatives. Of the costs of loss (types.Cost) each keeps what it needs."""

from coopsim.kernel import codes
from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    C_COST,
    CLASS,
    COST_OF_LOSS,
    HELD,
    K_CLASSES,
    LAST,
    MADE,
    NEXT_AT,
    OWN,
    PARENT,
    PIECE,
    SET,
    UNKNOWN,
    UNLISTED,
    USES,
    State,
)
from coopsim.replay.loss.classes import join_class, leave_class
from coopsim.replay.loss.union_find import join_set, leave_set
from coopsim.replay.memory import pin


@kernel
def join_evicted(S: State, v: int) -> None:
    """v has gone, and can be made again."""
    if S.choice[C_COST] == codes.COST_SET:
        join_set(S, v)
    elif S.choice[C_COST] == codes.COST_CLASSES:
        join_class(S, v)


@inlined
def leave_evicted(S: State, v: int) -> None:
    """v is back, or banished."""
    if S.choice[C_COST] == codes.COST_SET:
        leave_set(S, v)
    elif S.choice[C_COST] == codes.COST_CLASSES:
        leave_class(S, v)


@kernel
def forget(S: State) -> None:
    """A new round: nothing is made yet, nobody is evicted or held."""
    V = S.V
    S.K[K_CLASSES] = 0
    for v in range(V.shape[0]):
        V[v, PARENT] = v
        V[v, SET] = V[v, OWN]
        V[v, MADE] = 0
        V[v, CLASS] = -1
        pin(S, v, -V[v, HELD])
        V[v, HELD] = 0
        V[v, NEXT_AT] = V[v, USES]
        if V[v, PIECE] >= 0:
            S.P[V[v, PIECE], COST_OF_LOSS] = UNKNOWN
    for root in range(S.watchers.shape[0]):
        S.watchers[root] = LAST
    for edge in range(S.edges.shape[0]):
        S.edges[edge] = UNLISTED
