"""What policies decide with: the costs of ops, and cost classes of values.

A cost class is the values that ops of one name make at about the same cost per byte; they are numbered from the
cheapest.
"""

from collections.abc import Sequence

import numpy as np

from coopsim.kernel import state as s
from coopsim.trace.table import Trace
from coopsim.types import CostModel

_SHIFT = 60  # of a cost before it is divided by bytes, so that integers tell costs per byte apart on every machine


def decision_cost(trace: Trace, model: CostModel) -> s.Array:
    """What policies decide with, per op: recorded cost, bytes moved, operations (else elements moved), or 1."""
    if model == CostModel.COST:
        return trace.cost_ns
    if model == CostModel.BYTES:
        return trace.bytes_moved
    if model == CostModel.FLOPS:
        return np.where(trace.flops > 0, trace.flops, trace.bytes_moved // 4)
    return np.ones(trace.n_ops, np.int64)


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
