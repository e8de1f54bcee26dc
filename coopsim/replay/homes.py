"""Homes: where a value belongs in memory, by its grade and the bytes of each grade that were made so far.

What is dear a byte belongs low, what is cheap high, and grades lie side by side, each over as much of memory as its
share of all bytes that a step makes. So neighbours are alike: a window that frees many bytes need take nothing dear.
As far as the policy knows, every step makes what the mean of those before it made. Where there was none, and for
values so large that they would only break memory up, the two ends of the best-fitting hole serve, as in Coop.
"""

from coopsim.kernel.jit import inlined, kernel
from coopsim.kernel.state import (
    BYTES,
    G_BEFORE,
    G_LOWER,
    G_NOW,
    GRADE,
    HIGH_END,
    HOME,
    K_BUDGET,
    K_GRADED,
    LOW_END,
    State,
)

_LARGE = 32  # a value of more than this part of the budget
_CHEAP = 0.1  # the share of all bytes that goes to the high end where two ends serve


@kernel
def find_home(S: State, v: int) -> None:
    """Set V[v, HOME], for as long as the round lasts, and count the bytes of v. Multiples of them, so v is aligned."""
    G, n, grade = S.G, S.G.shape[0] - 1, S.V[v, GRADE]
    nbytes, budget = S.V[v, BYTES], S.K[K_BUDGET]
    lower, total = G[grade, G_LOWER], G[n, G_LOWER]
    if total > 0 and nbytes * _LARGE <= budget:
        of_grade = min(G[grade, G_NOW] * S.K[K_GRADED], G[grade, G_BEFORE])
        home = int(budget * (1.0 - (lower + of_grade) / total))
        S.V[v, HOME] = home // nbytes * nbytes
    else:
        if total == 0:
            for k in range(n):
                total += G[k, G_NOW]
                lower += G[k, G_NOW] * (k < grade)
        S.V[v, HOME] = HIGH_END if lower <= _CHEAP * total else LOW_END
    G[grade, G_NOW] += nbytes


@inlined
def end_step(S: State) -> None:
    """What the step made counts as made before."""
    G, n = S.G, S.G.shape[0] - 1
    lower = made = 0
    for k in range(n):
        made += G[k, G_NOW]
        G[k, G_BEFORE] += G[k, G_NOW]
        G[k, G_NOW] = 0
        G[k, G_LOWER] = lower
        lower += G[k, G_BEFORE]
    G[n, G_LOWER] = lower
    if made > 0:
        S.K[K_GRADED] += 1
