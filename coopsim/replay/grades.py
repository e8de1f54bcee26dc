"""Grades: values that ops of one name make at about the same cost a byte, numbered from the cheapest."""

from collections.abc import Sequence

import numpy as np

from coopsim.kernel.state import Array

_SHIFT = 60  # of a cost before it is divided by bytes, so that integers tell costs a byte apart on every machine


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
