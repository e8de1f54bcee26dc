"""How an iteration begins: where everything is, and what copies take from then on."""

from dataclasses import dataclass, field

import numpy as np

from coopsim.kernel import state as s


@dataclass(frozen=True)
class Copying:
    """What copies take: rows as State.copies at the start of an iteration (HOST_AT: 0 if the host has a copy then),
    rates, the host's bytes for them, and for how long the engines are busy at first.

    first: OFFLOADABLE without parameters and the like, which are offloaded only where nothing else fits: they come back
    to other places, and the next iteration has to be planned around these. lasting: these may go before an op has used
    them, and first of all where nothing else fits. absent: values that only the host has when the iteration begins.
    leaving: those that only the host has to have when it ends.
    """

    rows: s.Array
    first: s.Array
    rate_mb_s: int
    shared_rate_mb_s: int
    host_budget: int
    out_busy: int
    in_busy: int
    lasting: bool = False
    absent: s.Array = field(default_factory=lambda: np.zeros(0, np.int64))
    leaving: s.Array = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True)
class Start:
    """The addresses of what is in memory when an iteration begins, in the order of Program.initial.

    copying: None where nothing may be offloaded.
    """

    placed: s.Array
    copying: Copying | None = None
