"""The arrays of a program, which kernels read."""

from dataclasses import dataclass

from coopsim.kernel import state as s

NEVER = 1 << 62


@dataclass(frozen=True)
class Program:
    """Read-only arrays for the kernels (kernel/state.py names their columns), and the names of the values."""

    values: s.Array
    ops: s.Array
    ins: s.Array
    outs: s.Array
    uses: s.Array
    initial: s.Array
    events: s.Array
    step_cost: s.Array
    carry: s.Array
    edge_op: s.Array  # the op of each input, then of each output
    storage: s.Array  # of each value; -1 for a temporary
    version: s.Array  # of each value; for a temporary its number within its op
    spare: s.Array  # values that stand for bytes to be left unused
    used_up: int  # a storage that the sequence uses from its start and that is not there again at its end; -1: none
    dropped: s.Array  # the op after which the program drops each value; the number of ops if it never does
