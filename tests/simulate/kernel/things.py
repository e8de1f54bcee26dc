"""A bundle with an array of each kind, and a kernel that uses them."""

from typing import Any

from coopsim.simulate.kernel.jit import kernel
from coopsim.simulate.kernel.reference import Bundle


class Things(Bundle):
    """One array of each kind."""

    line: Any
    rows: Any
    box: Any


@kernel
def shift(S: Things) -> int:
    """Move everything one place back; what was first is in the last place, doubled, and the sum comes back."""
    first, total = S.box[0, 0, 0], 0
    for a in range(S.box.shape[0]):
        for b in range(S.box.shape[1]):
            for c in range(S.box.shape[2]):
                total += S.box[a, b, c]
    for k in range(len(S.line) - 1):
        S.line[k] = S.line[k + 1]
    for k in range(S.rows.shape[0] - 1):
        for column in range(S.rows.shape[1]):
            S.rows[k, column] = S.rows[k + 1, column]
    S.rows[len(S.rows) - 1, 1] += 7
    S.line[S.line.shape[0] - 1] = 2 * first
    return total
