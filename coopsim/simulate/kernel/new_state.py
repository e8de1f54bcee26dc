"""The state of a replay that has yet to begin."""

from typing import Any

import numpy as np

from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s


def _aligned(rows: int, columns: int) -> s.Array:
    """An array of zeros whose rows begin where cache lines do, if a row is a whole number of them."""
    flat = np.zeros(rows * columns + 8, np.int64)
    skip = -flat.ctypes.data % 64 // 8
    return flat[skip : skip + rows * columns].reshape(rows, columns)


def new_state(
    program: Any, choice: s.Array, budget: int, log_rows: int, caching: Any = None, *, table: bool = False
) -> s.State:
    """An empty memory of `budget` bytes with `program` (planning.program.Program) loaded.

    caching: the empty state of the caching allocator, if that serves. table: a user's search reads one.
    """
    values = program.values
    n_values, n_ops = len(values), len(program.ops) - 1
    n_blocks = 2 * n_values + 2 if caching is None else 2 * len(caching.B)  # and barriers between segments
    V = _aligned(n_values, s.V_COLUMNS)
    V[:, : values.shape[1]] = values
    V[:, s.BLOCK] = V[:, s.CLASS] = -1
    V[:, s.NEXT_AT] = V[:, s.USES]
    V[:, s.PARENT] = V[:, s.NODE] = np.arange(n_values)
    V[:, s.SET] = V[:, s.OWN]
    O = program.ops.copy()  # noqa: E741
    O[:, s.LOSS] = s.UNKNOWN
    P = _aligned(n_blocks, s.P_COLUMNS)
    if caching is not None:
        P[:, s.PREV] = P[:, s.NEXT] = P[:, s.VALUE] = P[:, s.ADDRESS] = P[:, s.LENGTH] = -1
    K = np.zeros(s.K_SIZE, np.int64)
    K[s.K_BUDGET] = K[s.K_FREE] = budget
    K[s.K_HEAD] = K[s.K_TAIL] = K[s.K_OP] = K[s.K_REQUEST] = -1
    K[s.K_TOP] = n_blocks - 1
    K[s.K_OUTCOME] = codes.OUTCOME_OK
    K[s.K_RANDOM] = s.FIRST_RANDOM
    K[s.K_BORDER] = s.NO_BORDER
    cost = choice[s.C_COST]
    sets = n_values if cost == codes.COST_SET else 0
    classes = n_values if cost == codes.COST_CLASSES else 0
    walks = n_values if cost in (codes.COST_NEIGHBOURHOOD, codes.COST_ANCESTORS) else 0
    projections = n_values if cost == codes.COST_PROJECTED else 0
    return s.State(
        choice=choice,
        V=V,
        O=O,
        ins=program.ins,
        outs=program.outs,
        uses=program.uses,
        initial=program.initial,
        E=program.events,
        step_cost=program.step_cost,
        carry=program.carry,
        P=P,
        H=np.zeros((s.H_ROWS, n_values + 2), np.int64),
        spare=_aligned(n_blocks if caching is None else 0, s.P_COLUMNS),
        slots=np.arange(n_blocks)[::-1].copy(),
        N=np.zeros((2 * classes + 2, 3), np.int64),
        R=np.full((classes, s.ROOTS), -1, np.int64),
        W=np.zeros((projections, 3)),
        cost_classes=np.full((int(V[:, s.COST_CLASS].max(initial=0)) + 1, s.CC_COLUMNS), [0.0, 0.0, 0.0, s.NO_ADDRESS]),
        edge_op=program.edge_op,
        edges=np.full(len(program.edge_op) if sets else 0, s.UNLISTED, np.int64),
        dependents=np.full(sets, s.LAST, np.int64),
        marks=np.zeros((walks, 2), np.int64),
        stack=np.zeros(n_ops + 1, np.int64),
        visit=np.zeros(n_values + 1, np.int64),
        scratch=np.zeros(n_blocks, np.int64),
        score=np.zeros(n_blocks),
        suffix=np.zeros(n_blocks),
        table=np.zeros((s.T_ROWS, n_blocks if table else 0), np.int64),
        can_go=np.zeros(n_blocks if table else 0, np.bool_),
        log=np.zeros((log_rows, s.L_COLUMNS), np.int64),
        decisions=np.zeros(0, np.int8),
        until=np.zeros(0, np.int64),
        requests=np.zeros((0, 2), np.int64),
        below=np.zeros(0, np.int64),
        blocks=np.zeros(0, np.int64),
        away=np.zeros((0, s.A_COLUMNS), np.int64),
        copies=np.zeros((0, s.COPIES_COLUMNS), np.int64),
        K=K,
        F=np.zeros(4),
        caching=caching,
    )
