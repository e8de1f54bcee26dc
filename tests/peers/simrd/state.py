"""The state of a replay under simrd's rules: few two-dimensional arrays with named columns, as in
coopsim.simulate.kernel.state.

simrd knows *tensors* and *storages*. A storage has one tensor that owns its bytes and any number of views; evicting a
storage undefines all its tensors, and each view is defined again by an op of its own.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel.reference import Bundle

Array = NDArray[np.int64]

# V: a row per storage, and one more row that closes the last ranges. The first eight columns, one cache line, are all
# that a score needs. NEXT and PREV: the pool. DOWN and UP: cost of the evicted storages below and above (regions.py),
# valid as the bits of STALE say. KNOWN: COMPUTE without the op that is running. CREATED: the last op counted there.
BYTES, COMPUTE, LAST, NEXT, PREV, DOWN, UP, STALE = range(8)
MATERIAL, LOCKS, PINNED, KNOWN, CREATED, CLASS, AFTER, BEFORE = range(8, 16)
MEMBERS, PARENTS, CHILDREN, MARK = range(16, 20)
V_COLUMNS = 24

# Bits of STALE: DOWN or UP is only a lower bound; DOWN counts the results of the op that is running; the storage is in
# a column of `queue`.
DOWN_STALE, UP_STALE, SEES_NEW, QUEUED_EVICTED, QUEUED_RESTORED = 1, 2, 4, 8, 16

# queue: storages whose eviction or return the regions have not taken in.
EVICTED, RESTORED = range(2)

# T: a row per tensor, in order of creation. BYTES_OF is 0 for a view.
STORAGE, OP, DEFINED, BYTES_OF = range(4)
T_COLUMNS = 4

# O: a row per op, and one that closes the ranges. Its arguments are args[O[o, ARGS]:O[o + 1, ARGS]], repeats included,
# its results the tensors O[o, OUTS]:O[o + 1, OUTS]. NEED is what it allocates, SPARE the part of it that goes when it
# has run.
COST, ARGS, OUTS, NEED, SPARE = range(5)
O_COLUMNS = 5

# G: the neighbours of storages, a row per edge: the storage at the other end, and the op that made the edge.
END, SINCE = range(2)

# Q: a row per equivalence class (classes.py). SLOT: numbers of unused rows.
Q_COST, Q_SIZE, Q_MARK, Q_SLOT = range(4)
Q_COLUMNS = 4

# F: the tensors being materialised, a row each: the tensor, and where its undefined arguments wait in `waiting`.
F_TENSOR, F_NEXT, F_END = range(3)
F_COLUMNS = 3

# E: the program, a row per event.
KIND, ID = range(2)
RUN, CONSTANT, RELEASE, PIN = range(4)

# log: a row per action.
L_ACTION, L_OP, L_STORAGE, L_BYTES, L_TIME, L_VISITS = range(6)
L_COLUMNS = 6

(
    K_POLICY,
    K_REGIONS,  # which regions the policy asks for: 0, UPWARD or BOTH
    K_STALENESS,  # whether it divides by staleness
    K_BUDGET,
    K_USED,
    K_PEAK,
    K_HEAD,
    K_TAIL,
    K_POOL,
    K_CLOCK,
    K_RECOMPUTE_COST,
    K_EVICTIONS,
    K_RELEASES,
    K_RECOMPUTES,
    K_OPS,
    K_SEARCHES,
    K_SCORES,
    K_SEARCH_NS,
    K_ROWS,
    K_OP,
    K_OUTCOME,
    K_NEEDED,
    K_STAMP,
    K_SINCE,  # the newest op whose edges the regions know
    K_NEW,  # the first storage that the running op creates, and the one after its last
    K_BORN,
    K_LACKED,  # whether it had missing arguments when it began
    K_EAGER,  # whether regions follow each event at once (regions.py)
    K_EVICTED,  # how many are in each column of `queue`
    K_RESTORED,
    K_CLASSES,
    K_MAX_POOL,
    K_SIZE,
) = range(33)

# Policies, by simrd's classes.
DTR, EQ_CLASS, LOCAL, MSPS, LRU, LARGEST = range(6)
UPWARD, BOTH = 1, 2


class SimrdState(Bundle):
    """Program, memory and counters of one replay. Arrays are described above."""

    V: Array
    T: Array
    O: Array  # noqa: E741
    G: Array
    Q: Array
    F: Array
    E: Array
    args: Array
    members: Array  # tensors of each storage: members[V[s, MEMBERS]:V[s + 1, MEMBERS]]
    waiting: Array
    stack: Array
    fresh: Array  # storages that an op has just brought (back)
    queue: Array
    edge: Array  # material storages around a region
    log: Array
    K: Array


def new_state(program: Any, policy: int, budget: int, log_rows: int) -> SimrdState:
    """`budget` bytes, nothing in them, and `program` (simrd.lower.SimrdProgram) before its first event."""
    V = program.storages.copy()
    n = len(V) - 1
    Q = np.zeros((n + 1, Q_COLUMNS), np.int64)
    Q[:, Q_SLOT] = np.arange(n + 1)[::-1]
    K = np.zeros(K_SIZE, np.int64)
    K[K_POLICY] = policy
    K[K_REGIONS] = {DTR: BOTH, MSPS: UPWARD}.get(policy, 0)
    K[K_STALENESS] = policy not in (MSPS, LARGEST)
    K[K_BUDGET] = budget
    K[K_OUTCOME] = codes.OUTCOME_OK
    K[K_HEAD] = K[K_TAIL] = K[K_OP] = K[K_SINCE] = -1
    K[K_CLOCK] = 1  # simrd's clock starts there
    K[K_CLASSES] = n + 1
    return SimrdState(
        V=V,
        T=program.tensors.copy(),
        O=program.ops,
        G=program.edges,
        Q=Q,
        F=np.zeros((len(program.ops) + 1, F_COLUMNS), np.int64),
        E=program.events,
        args=program.args,
        members=program.members,
        waiting=np.zeros(len(program.args) + 1, np.int64),
        stack=np.zeros(n + 1, np.int64),
        fresh=np.zeros(n + 1, np.int64),
        queue=np.zeros((n + 1, 2), np.int64),
        edge=np.zeros(n + 1, np.int64),
        log=np.zeros((log_rows, L_COLUMNS), np.int64),
        K=K,
    )
