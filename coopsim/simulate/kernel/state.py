"""The state of a replay: a few two-dimensional arrays whose columns have names, passed about as one tuple.

A row holds all that is known of one value, op or block, so that touching it touches one or two cache lines. `V[v,
BLOCK]` reads "the block of value v".
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from coopsim.simulate.kernel.reference import Bundle

Array = NDArray[np.int64]

# V: a row per value (one version of one storage). The first eleven columns never change in a replay. The ops that have
# value v as input are uses[V[v, USES]:V[v, USES_END]], in program order; NEXT_AT is how far the program has got among
# them. OLDER: the version before it; IN_PLACE: it takes over that one's place; SAVED: its storage is, for backward.
# HELD: one of the pins is there because something that v was made from is banished. UPDATED: an op has updated it in
# place in this iteration. UNSAVED: 1 + the op that was served when v was last missing as it began, unless v is saved.
# BLOCK: its row of P, or where it is if it has none. NODE: its node of the union-find forest, whose parent and cost are
# in row NODE of PARENT and SET.
BYTES, PRODUCER, EVICTABLE, EXPENSIVE, OLDER, OWN, USES, USES_END, COST_CLASS, IN_PLACE, SAVED = range(11)
BLOCK, LIVE, PINS, PARENT, SET, MADE, STAMP, CLASS, NEXT_AT, HELD, UPDATED, UNSAVED, NODE = range(11, 24)
V_STATIC, V_COLUMNS = 11, 24
NOWHERE, ON_HOST = -1, -2  # BLOCK of a value that is not resident: missing; offloaded

# copies: a row per value where the policy offloads, else none. OFFLOADABLE: it may be. COPY_NS: how long a copy takes
# alone. HOST_AT: when the host's copy is (or will be) whole, or NO_COPY. FETCHED_AT: when the last fetch ends. LEAVES:
# by plan, it is evicted when the copy is whole.
OFFLOADABLE, COPY_NS, HOST_AT, FETCHED_AT, LEAVES = range(5)
COPIES_COLUMNS = 5
NO_COPY = -1

# EXPENSIVE of a value: a cheap op makes it, an expensive one does, or it is the workspace of an expensive one.
CHEAP, COSTLY, WORKSPACE = range(3)

# cost_classes: a row per cost class (planning/program.py). What searches have passed of it: its bytes; those that could
# be evicted, and what losing these would have cost. And its preferred address, or NO_ADDRESS.
CC_BYTES, CC_LOSABLE, CC_LOSS, CC_ADDRESS = range(4)
CC_COLUMNS = 4
NO_ADDRESS = -1

# away: the copies of a plan, in order. A_OP: the op of the program before which; A_WHAT: OUT, a copy to the host
# begins; LEFT, the value has left (ops wait for that); BACK, a copy back begins; A_VALUE; A_START, A_END: of the copy,
# by the dry run.
A_OP, A_WHAT, A_VALUE, A_START, A_END = range(5)
OUT, LEFT, BACK = range(3)
A_COLUMNS = 5

# O: a row per op, and one more row that closes the last op's ranges. Inputs of op o are ins[O[o, INS]:O[o + 1, INS]];
# outs[O[o, OUTS]:O[o, TEMPS]] are its outputs and outs[O[o, TEMPS]:O[o + 1, OUTS]] its temporaries. LOSS: where
# the cost goes by sets, that of losing any output, or UNKNOWN until one is queried.
COST, DECIDE, INS, OUTS, TEMPS, PENDING, LOSS = range(7)
O_COLUMNS = 7

# P: a row per block of memory, used or free, linked in address order (in a counter: in the order of allocation). A
# search goes along it, so it has all that a score needs, in one cache line: LOCKED, more than 0 if what lies there
# cannot be evicted now (its pins, and 1 if it never can); LAST_USE of it on the clock; COST of losing it, or UNKNOWN
# until queried.
ADDRESS, LENGTH, PREV, NEXT, VALUE, LOCKED, LAST_USE, COST_OF_LOSS = range(8)
P_COLUMNS = 8
BARRIER = -2  # VALUE of a block of no bytes between neighbours in the list that are none in memory; -1: free
UNKNOWN = -1

# H: a column per hole, sorted by (bytes, address).
HOLE_BYTES, HOLE_ADDRESS, HOLE_BLOCK = range(3)
H_ROWS = 3

# table: a row per column of what a user's search reads.
T_ADDRESS, T_BYTES, T_VALUE, T_LAST_USE = range(4)
T_ROWS = 4

# N: a row per equivalence class of evicted values (DTR): a union-find forest. A value that comes back leaves its node
# behind.
N_PARENT, N_COST, N_STAMP = range(3)

# R: a row per value, the roots of the classes around it, where COST_OF_LOSS is known (then without the classes' costs).
ROOTS = 4  # as many as fit; after the last there is a -1

# dependents[r]: the first edge of those that the cost of set r went into, edges[e] the next; LAST ends the list. Edge k
# is input k of its op, edge len(ins) + k is output k; edge_op has the op.
LAST, UNLISTED = -1, -2

# marks: a row per value, the pass of marking that went through it, upwards and downwards.
M_UP, M_DOWN = range(2)

# W: what static DTR projects for an evicted value: cost to bring back, memory for that, evicted descendants.
W_BACK, W_MEMORY, W_FORWARD = range(3)

# E: the program, a row per event. DROP: the program drops a value; DROP_ONLY: but it stays until GONE, when nothing can
# need it any more.
KIND, ID = range(2)
RUN, DROP, END_STEP, DROP_ONLY, GONE = range(5)

# carry: at the end of an iteration value FROM becomes value TO.
FROM, TO = range(2)

# A: the log, a row per action.
L_ACTION, L_STEP, L_OP, L_VALUE, L_ADDRESS, L_BYTES, L_TIME, L_VISITS = range(8)
L_COLUMNS = 8

# choice: the policy and the allocator, as kernel/codes.py numbers what can be chosen.
C_COST, C_DIVISOR, C_RECENCY, C_SEARCH, C_PLACEMENT, C_IN_PLACE, C_RELEASE, C_DEAD, C_NODE, C_ALLOCATOR, C_LOSE = range(
    11
)
C_SIZE = 11

# K: counters and registers.
(
    K_BUDGET,
    K_FREE,
    K_HOLES,
    K_TOP,
    K_HEAD,
    K_TAIL,
    K_CLOCK,
    K_TOTAL,
    K_RECOMPUTE_COST,
    K_PEAK,
    K_EVICTIONS,
    K_RELEASES,
    K_RECOMPUTES,
    K_OPS,
    K_SEARCHES,
    K_VISITS,
    K_SCORES,
    K_SEARCH_NS,
    K_ROWS,
    K_STEP,
    K_OP,
    K_OUTCOME,
    K_NEEDED,
    K_LARGEST,
    K_BLOCKS,
    K_MAX_BLOCKS,
    K_COPIES,
    K_NOW,
    K_STAMP,
    K_CLASSES,
    K_RANDOM,
    K_USER_SCORE,  # address of a user's score; 0: there is none
    K_HOOK,  # address of what a policy of a user's is told and asked by
    K_TOLD,  # what it is told and asked, a bit each (kernel/codes.py)
    K_REFUSED,  # 1 + the value (below 0: it) that a user's search has chosen and that cannot go; 0: none
    K_LOG_HOOK,  # address of what takes the rows when the log is full
    K_TAKEN,  # rows that it has taken
    K_LISTED,  # blocks in the table
    K_SEARCH,  # address of a user's compiled search
    K_TABLE,  # address of what a compiled search is called with
    K_CROWDED,  # the arrays of the caching allocator are too small
    K_MARKING,  # the pass of marking; a new one begins when a cost has been queried
    K_QUERIES,  # costs of loss queried, as no block knew them
    K_UNORDERED,  # blocks linked since their rows were put in order
    K_STEPS,  # finished
    K_EVENT,  # the next of the program
    K_REQUEST,  # the next of the plan; -1: none is followed
    K_PLANNED_STEPS,  # steps that went by plan to their end
    K_STEP_CLOCK,  # the clock when the step began
    K_FEW,  # whether a few large values have most of the bytes, so that none has a preferred address
    K_BORDER,  # where the area for small requests begins; NO_BORDER: there is none
    K_OUT_FREE,  # when the engine that copies to the host has ended all that it was given
    K_IN_FREE,  # the same of the one that copies back
    K_RATE,  # MB/s of a copy alone
    K_SHARED_RATE,  # MB/s of one while the other engine is busy
    K_STALL,  # ns that the ops waited for copies
    K_OFFLOADS,
    K_OFFLOADED_BYTES,
    K_FETCHES,
    K_FETCHED_BYTES,
    K_HOST_BUDGET,
    K_HOST_USED,
    K_HOST_SPARE,  # of it, copies of values that are resident
    K_HOST_PEAK,
    K_AWAY,  # the next copy of the plan
    K_LEFT,  # the next of those before it whose value may leave when it is copied
    K_SIZE,
) = range(67)
NO_BORDER = 1 << 62
FIRST_RANDOM = 20231210  # Coop's day at NeurIPS

# F: sums of samples, and the bytes that searches have passed of values too large for one.
F_FREE, F_FREE_INCL, F_FRAGMENTATION, F_LARGE = range(4)


class State(Bundle):
    """Program, memory and counters of one replay. Each array with its shape; the columns are described above.

    What only one cost of loss keeps (N, R, W, edges, dependents, marks) takes no room under the others.
    """

    WIDE: ClassVar = ("H", "table")

    choice: Array  # (C_SIZE,)
    V: Array  # (values, V_COLUMNS)
    O: Array  # (ops + 1, O_COLUMNS)  # noqa: E741
    ins: Array  # (inputs of all ops,): values
    outs: Array  # (outputs and temporaries of all ops,): values
    uses: Array  # (uses of all values,): ops
    initial: Array  # (values that are there at the start,)
    E: Array  # (events, 2)
    step_cost: Array  # (steps of the trace,): ns
    carry: Array  # (values handed on, 2)
    P: Array  # (blocks, P_COLUMNS)
    H: Array  # (H_ROWS, holes)
    spare: Array  # (blocks, P_COLUMNS): rows of P on their way
    slots: Array  # (blocks,): numbers of unused rows of P
    N: Array  # (nodes, 3)
    R: Array  # (values, ROOTS)
    W: NDArray[np.float64]  # (values, 3)
    cost_classes: NDArray[np.float64]  # (cost classes, CC_COLUMNS)
    edge_op: Array  # (inputs + outputs of all ops,)
    edges: Array  # (inputs + outputs of all ops,)
    dependents: Array  # (values,)
    marks: Array  # (values, 2)
    stack: Array  # (ops + 1,): ops that wait for their inputs
    visit: Array  # (values + 1,): values that a walk has yet to visit
    scratch: Array  # (blocks,): the run that a search looks at, values on their way, or cost classes in order
    score: NDArray[np.float64]  # (blocks,): of the blocks in that run
    suffix: NDArray[np.float64]  # (blocks,): and their sums to the right
    table: Array  # (T_ROWS, blocks): what a search of a user's reads of all blocks; else no blocks
    can_go: NDArray[np.bool_]  # (blocks,): and whether each may be evicted now
    log: Array  # (rows, L_COLUMNS): those since it was last full; no rows: they are only counted
    decisions: Array  # (uses + values,), int8: of a plan (replay/plan.py), what leaves when
    until: Array  # (values,): the op until which each value stays for others
    requests: Array  # (requests, 2): and the values and addresses of its requests
    below: Array  # (requests,): of each, which one before it lies next below; a number in `blocks`
    blocks: Array  # (values there at the start + requests,): the blocks that they have had in this iteration
    away: Array  # (copies of a plan, A_COLUMNS)
    copies: Array  # (values, COPIES_COLUMNS), or no rows
    K: Array  # (K_SIZE,)
    F: NDArray[np.float64]  # (4,)
    caching: Any  # of that allocator, its state; of others None
