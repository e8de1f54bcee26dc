"""What copies to the host take, for the bounds of schedules that may offload (docs/optimum.md).

Two engines, one for each direction, each with one copy at a time. A copy may be spread over its engine's time, in parts
and in any order, which a replay's is not: with that the least cost is a bound for replays.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from coopsim.cards.link import Link
from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.program import Program
from coopsim.simulate.planning.request import copies
from coopsim.trace.table import Trace


@dataclass(frozen=True)
class CopyBounds:
    """Which values may be copied, and what that takes.

    ns: of each value that may be, how long a copy takes alone. both: the work that the engines do at most in a ns in
    which both are busy, in ns of copies alone. host_memory: bytes for copies; None: no limit.
    """

    ns: dict[int, int]
    both: Fraction
    host_memory: int | None


def copies_of(program: Program, trace: Trace, values: Iterable[int], link: Link, host_memory: int | None) -> CopyBounds:
    """Of the activations among the `values`, and of results of random ops; not of parameters and the like."""
    rows = copies(program, trace, link, state_too=False)
    ns = {v: int(rows[v, s.COPY_NS]) for v in values if rows[v, s.OFFLOADABLE]}
    return CopyBounds(ns, 1 + Fraction(link.shared_rate_mb_s, link.rate_mb_s), host_memory)
