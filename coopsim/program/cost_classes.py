"""Cost classes: the values that ops of one name make at about the same cost per byte, numbered from the cheapest."""

from collections.abc import Sequence

import numpy as np

from coopsim.kernel import state as s

_SHIFT = 60  # of a cost before it is divided by bytes, so that integers tell costs per byte apart on every machine


def octave(cost: int, nbytes: int) -> int:
    """The cost per byte on a logarithmic scale, in eighths of an octave (not quite of one length)."""
    per_byte = (cost + 1 << _SHIFT) // nbytes
    shift = max(per_byte.bit_length() - 4, 0)
    return 8 * shift + (per_byte >> shift)


def cost_classes(names: Sequence[str], costs: Sequence[int], nbytes: Sequence[int]) -> s.Array:
    """The cost class of each value, given the op that makes it, what that costs, and its bytes (more than 0)."""
    keys = [(octave(c, n), name) for name, c, n in zip(names, costs, nbytes, strict=True)]
    number = {key: k for k, key in enumerate(sorted(set(keys)))}
    return np.array([number[key] for key in keys], np.int64)
