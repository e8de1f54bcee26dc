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
from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    BYTES,
    C_ALLOCATOR,
    C_PLACEMENT,
    EVICTABLE,
    F_LARGE,
    G_BYTES,
    G_HOME,
    G_LOSABLE,
    G_LOSS,
    GRADE,
    K_BUDGET,
    K_FEW,
    NO_HOME,
    VALUE,
    Array,
    State,
)

_SHIFT = 60  # of a cost before it is divided by bytes, so that integers tell costs a byte apart on every machine
_LARGE = 32  # a value of more than this part of the budget
_MOST = 0.6  # of the bytes that searches pass; if large values have more, no value has a home


def octave(cost: int, nbytes: int) -> int:
    """The cost a byte on a logarithmic scale, in eighths of an octave (which are not quite as long as one another)."""
    per_byte = (cost + 1 << _SHIFT) // nbytes
    shift = max(per_byte.bit_length() - 4, 0)
    return 8 * shift + (per_byte >> shift)


def grades(names: Sequence[str], costs: Sequence[int], nbytes: Sequence[int]) -> Array:
    """The grade of each value, given the op that makes it, what that costs, and its bytes (more than 0)."""
    keys = [(octave(c, n), name) for name, c, n in zip(names, costs, nbytes, strict=True)]
    number = {key: k for k, key in enumerate(sorted(set(keys)))}
    return np.array([number[key] for key in keys], np.int64)


@inlined
def has_homes(S: State) -> bool:
    """Whether values may have homes: without addresses, or with an allocator that chooses them, they do not."""
    return S.choice[C_PLACEMENT] == codes.PLACEMENT_HOMES and S.choice[C_ALLOCATOR] == codes.ARENA


@inlined
def _is_large(S: State, v: int) -> bool:
    return S.V[v, BYTES] * _LARGE > S.K[K_BUDGET]


@inlined
def home_of(S: State, v: int) -> int:
    """The address at which v belongs, a multiple of its bytes, or NO_HOME: too large, or of a grade never passed."""
    home = S.G[S.V[v, GRADE], G_HOME]
    if home < 0 or _is_large(S, v):
        return NO_HOME
    return int(home) // S.V[v, BYTES] * S.V[v, BYTES]


@inlined
def note(S: State, piece: int, loss: float) -> None:
    """A search passes this piece. loss: what losing what is there would cost; negative if it cannot be evicted now."""
    v = S.P[piece, VALUE]
    if v >= 0 and S.V[v, EVICTABLE]:
        grade, nbytes = S.V[v, GRADE], S.V[v, BYTES]
        S.G[grade, G_BYTES] += nbytes
        if _is_large(S, v):
            S.F[F_LARGE] += nbytes
        if loss >= 0.0:
            S.G[grade, G_LOSABLE] += nbytes
            S.G[grade, G_LOSS] += loss


@kernel
def end_step(S: State) -> None:
    """Give grades their homes, by what has been noted so far."""
    G = S.G
    n, total = 0, 0.0
    for grade in range(G.shape[0]):
        if G[grade, G_BYTES] > 0:
            _put_in_order(S, n, grade)
            n += 1
            total += G[grade, G_BYTES]
    S.K[K_FEW] = S.F[F_LARGE] > _MOST * total
    below = 0.0
    for k in range(n - 1, -1, -1):
        grade = S.scratch[k]
        G[grade, G_HOME] = S.K[K_BUDGET] * (below + G[grade, G_BYTES] / 2) / total
        below += G[grade, G_BYTES]


@inlined
def _put_in_order(S: State, n: int, grade: int) -> None:
    """Among the first n of S.scratch, which are in the order of the cost a byte, the cheapest first."""
    k = n
    while k > 0 and _is_dearer(S, S.scratch[k - 1], grade):
        S.scratch[k] = S.scratch[k - 1]
        k -= 1
    S.scratch[k] = grade


@inlined
def _is_dearer(S: State, one: int, other: int) -> bool:
    """Whether losing a byte of the one grade costs more. Where nothing could be lost: more than anything."""
    G = S.G
    if G[other, G_LOSABLE] == 0:
        return False
    return G[one, G_LOSABLE] == 0 or G[one, G_LOSS] / G[one, G_LOSABLE] > G[other, G_LOSS] / G[other, G_LOSABLE]
