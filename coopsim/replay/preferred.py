"""Homes: where in memory a value belongs, by its grade. What is dear to lose lies low, what is cheap high.

A search goes along memory anyway. So it notes of each grade the bytes that lie there, and what losing them would cost.
When a step ends, grades are put in the order of that cost a byte, and each gets its share of memory by those bytes. So
neighbours are alike, and a window that frees many bytes need take nothing dear. Values so large that they would only
break memory up have no homes, and where most bytes are theirs nothing has.

A grade is the values that ops of one name make at about the same cost a byte; grades are numbered from the cheapest.
"""

from collections.abc import Sequence

import numpy as np

from coopsim.kernel import codes
from coopsim.kernel import state as s
from coopsim.kernel.jit import inlined, kernel

_SHIFT = 60  # of a cost before it is divided by bytes, so that integers tell costs a byte apart on every machine
_LARGE = 32  # a value of more than this part of the budget
_MOST = 0.6  # of the bytes that searches pass; if large values have more, no value has a home


def octave(cost: int, nbytes: int) -> int:
    """The cost a byte on a logarithmic scale, in eighths of an octave (which are not quite as long as one another)."""
    per_byte = (cost + 1 << _SHIFT) // nbytes
    shift = max(per_byte.bit_length() - 4, 0)
    return 8 * shift + (per_byte >> shift)


def grades(names: Sequence[str], costs: Sequence[int], nbytes: Sequence[int]) -> s.Array:
    """The grade of each value, given the op that makes it, what that costs, and its bytes (more than 0)."""
    keys = [(octave(c, n), name) for name, c, n in zip(names, costs, nbytes, strict=True)]
    number = {key: k for k, key in enumerate(sorted(set(keys)))}
    return np.array([number[key] for key in keys], np.int64)


@inlined
def has_homes(S: s.State) -> bool:
    """Whether values may have homes: without addresses, or with an allocator that chooses them, they do not."""
    return S.choice[s.C_PLACEMENT] == codes.PLACEMENT_HOMES and S.choice[s.C_ALLOCATOR] == codes.ARENA


@inlined
def _is_large(S: s.State, v: int) -> bool:
    return S.V[v, s.BYTES] * _LARGE > S.K[s.K_BUDGET]


@inlined
def home_of(S: s.State, v: int) -> int:
    """The address at which v belongs, a multiple of its bytes, or NO_HOME: too large, or of a grade never passed."""
    home = S.cost_classes[S.V[v, s.COST_CLASS], s.CC_HOME]
    if home < 0 or _is_large(S, v):
        return s.NO_HOME
    return int(home) // S.V[v, s.BYTES] * S.V[v, s.BYTES]


@inlined
def note(S: s.State, piece: int, loss: float) -> None:
    """A search passes this piece. loss: what losing what is there would cost; negative if it cannot be evicted now."""
    v = S.P[piece, s.VALUE]
    if v >= 0 and S.V[v, s.EVICTABLE]:
        grade, nbytes = S.V[v, s.COST_CLASS], S.V[v, s.BYTES]
        S.cost_classes[grade, s.CC_BYTES] += nbytes
        if _is_large(S, v):
            S.F[s.F_LARGE] += nbytes
        if loss >= 0.0:
            S.cost_classes[grade, s.CC_LOSABLE] += nbytes
            S.cost_classes[grade, s.CC_LOSS] += loss


@kernel
def end_step(S: s.State) -> None:
    """Give grades their homes, by what has been noted so far."""
    G = S.cost_classes
    n, total = 0, 0.0
    for grade in range(G.shape[0]):
        if G[grade, s.CC_BYTES] > 0:
            _put_in_order(S, n, grade)
            n += 1
            total += G[grade, s.CC_BYTES]
    S.K[s.K_FEW] = S.F[s.F_LARGE] > _MOST * total
    below = 0.0
    for k in range(n - 1, -1, -1):
        grade = S.scratch[k]
        G[grade, s.CC_HOME] = S.K[s.K_BUDGET] * (below + G[grade, s.CC_BYTES] / 2) / total
        below += G[grade, s.CC_BYTES]


@inlined
def _put_in_order(S: s.State, n: int, grade: int) -> None:
    """Among the first n of S.scratch, which are in the order of the cost a byte, the cheapest first."""
    k = n
    while k > 0 and _is_dearer(S, S.scratch[k - 1], grade):
        S.scratch[k] = S.scratch[k - 1]
        k -= 1
    S.scratch[k] = grade


@inlined
def _is_dearer(S: s.State, one: int, other: int) -> bool:
    """Whether losing a byte of the one grade costs more. Where nothing could be lost: more than anything."""
    G = S.cost_classes
    if G[other, s.CC_LOSABLE] == 0:
        return False
    return (
        G[one, s.CC_LOSABLE] == 0
        or G[one, s.CC_LOSS] / G[one, s.CC_LOSABLE] > G[other, s.CC_LOSS] / G[other, s.CC_LOSABLE]
    )
