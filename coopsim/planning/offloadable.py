"""Which values a policy that offloads may copy to the host, and how long a copy of each takes."""

from typing import Any

import numpy as np

from coopsim.kernel import state as s
from coopsim.link import Link
from coopsim.planning.lower import KEPT_ROLES
from coopsim.planning.program import Program
from coopsim.trace.table import Trace


def offloadable(program: Program, trace: Trace, *, state_too: bool) -> Any:
    """Of each value whether it may be offloaded.

    state_too: also what no op makes, what the next iteration takes over, and parameters, gradients, optimizer state and
    buffers. Temporaries never.
    """
    kept = np.array([role in KEPT_ROLES for role in trace.role] + [False])
    only_there = (program.values[:, s.PRODUCER] < 0) | kept[program.storage]
    only_there[program.carry[:, s.FROM]] = True
    return (program.storage >= 0) & (state_too | ~only_there)


def copies(program: Program, trace: Trace, link: Link, *, state_too: bool) -> s.Array:
    """The rows of `State.copies`, before anything is copied."""
    values = program.values
    rows = np.zeros((len(values), s.COPIES_COLUMNS), np.int64)
    rows[:, s.OFFLOADABLE] = offloadable(program, trace, state_too=state_too)
    rows[:, s.COPY_NS] = [link.alone_ns(n) for n in values[:, s.BYTES].tolist()]
    rows[:, s.HOST_AT] = s.NO_COPY
    return rows
