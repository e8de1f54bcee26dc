"""Preferred addresses: where in memory a value belongs, by its cost class. The most expensive to lose lie lowest.

A search goes along memory anyway. So it notes of each cost class the bytes that lie there, and what losing them would
cost. When a step ends, cost classes are put in the order of that cost per byte, and each gets its share of memory by
those bytes. So neighbours are alike, and a window that frees many bytes need take nothing expensive. Values so large
that they would only break memory up have no preferred address, and where most bytes are theirs nothing has.

Cost classes are numbered in planning/program.py.
"""

from coopsim.simulate.kernel import codes
from coopsim.simulate.kernel import state as s
from coopsim.simulate.kernel.jit import inlined, kernel

_LARGE = 32  # a value of more than this part of the budget
_MOST = 0.6  # of the bytes that searches pass; if large values have more, no value has one


@inlined
def has_preferred(S: s.State) -> bool:
    """Whether values may have preferred addresses: not without addresses, or if the allocator chooses them."""
    return S.choice[s.C_PLACEMENT] == codes.PLACEMENT_PREFERRED and S.choice[s.C_ALLOCATOR] == codes.ARENA


@inlined
def _is_large(S: s.State, v: int) -> bool:
    return S.V[v, s.BYTES] * _LARGE > S.K[s.K_BUDGET]


@inlined
def preferred_address(S: s.State, v: int) -> int:
    """Where v belongs, a multiple of its bytes, or NO_ADDRESS: too large, or of a cost class never passed."""
    address = S.cost_classes[S.V[v, s.COST_CLASS], s.CC_ADDRESS]
    if address < 0 or _is_large(S, v):
        return s.NO_ADDRESS
    return int(address) // S.V[v, s.BYTES] * S.V[v, s.BYTES]


@inlined
def note(S: s.State, block: int, loss: float) -> None:
    """A search passes this block. loss: what losing what is there would cost; negative if it cannot be evicted now."""
    v = S.P[block, s.VALUE]
    if v >= 0 and S.V[v, s.EVICTABLE]:
        cost_class, nbytes = S.V[v, s.COST_CLASS], S.V[v, s.BYTES]
        S.cost_classes[cost_class, s.CC_BYTES] += nbytes
        if _is_large(S, v):
            S.F[s.F_LARGE] += nbytes
        if loss >= 0.0:
            S.cost_classes[cost_class, s.CC_LOSABLE] += nbytes
            S.cost_classes[cost_class, s.CC_LOSS] += loss


@kernel
def end_step(S: s.State) -> None:
    """Give cost classes their addresses, by what has been noted so far."""
    G = S.cost_classes
    n, total = 0, 0.0
    for cost_class in range(G.shape[0]):
        if G[cost_class, s.CC_BYTES] > 0:
            _put_in_order(S, n, cost_class)
            n += 1
            total += G[cost_class, s.CC_BYTES]
    S.K[s.K_FEW] = S.F[s.F_LARGE] > _MOST * total
    below = 0.0
    for k in range(n - 1, -1, -1):
        cost_class = S.scratch[k]
        G[cost_class, s.CC_ADDRESS] = S.K[s.K_BUDGET] * (below + G[cost_class, s.CC_BYTES] / 2) / total
        below += G[cost_class, s.CC_BYTES]


@inlined
def _put_in_order(S: s.State, n: int, cost_class: int) -> None:
    """Among the first n of S.scratch, which are in the order of the cost per byte, the cheapest first."""
    k = n
    while k > 0 and _is_more_expensive(S, S.scratch[k - 1], cost_class):
        S.scratch[k] = S.scratch[k - 1]
        k -= 1
    S.scratch[k] = cost_class


@inlined
def _is_more_expensive(S: s.State, one: int, other: int) -> bool:
    """Whether losing a byte of the one costs more. Where nothing could be lost: more than anything."""
    G = S.cost_classes
    if G[other, s.CC_LOSABLE] == 0:
        return False
    return (
        G[one, s.CC_LOSABLE] == 0
        or G[one, s.CC_LOSS] / G[one, s.CC_LOSABLE] > G[other, s.CC_LOSS] / G[other, s.CC_LOSABLE]
    )
