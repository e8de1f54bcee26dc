"""What is to be scheduled: ops, values, and what must be resident when. docs/optimum.md says why in this form.

Stage t of a schedule is what runs after the first run of op t - 1, up to and with the first run of op t.
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from coopsim.base.types import InPlace, Pinning
from coopsim.cards.link import Link
from coopsim.simulate.kernel import state as s
from coopsim.simulate.planning.lower import KEPT_ROLES, lower
from coopsim.simulate.planning.program import Program
from coopsim.simulate.planning.request import copies
from coopsim.trace.table import Trace


@dataclass(frozen=True)
class CopyBounds:
    """Which values may be copied, and what that takes.

    ns: of each value that may be, how long a copy takes alone. both: the work that the engines do at most in a ns in
    which both are busy, in ns of copies alone. host_memory: bytes for copies; None: no limit.

    Two engines, one for each direction, have one copy at a time. A copy may be spread over its engine's time, in parts
    and in any order, which a replay's is not: with that the least cost is a bound for replays.
    """

    ns: dict[int, int]
    both: Fraction
    host_memory: int | None


def copies_of(program: Program, trace: Trace, values: Iterable[int], link: Link, host_memory: int | None) -> CopyBounds:
    """Of the activations among the `values`, and of results of random ops; not of parameters and the like."""
    rows = copies(program, trace, link, state_too=False)
    ns = {v: int(rows[v, s.COPY_NS]) for v in values if rows[v, s.OFFLOADABLE]}
    return CopyBounds(ns, 1 + Fraction(link.shared_rate_mb_s, link.rate_mb_s), host_memory)


@dataclass(frozen=True)
class Problem:
    """One iteration of a trace. Ops and values are numbered as in the replay's program; temporaries are none here."""

    ins: list[list[int]]  # of each op
    outs: list[list[int]]
    pairs: list[list[tuple[int, int]]]  # of each op: (older version, new version) of what it mutates
    inside: list[int]  # bytes of its temporaries
    cost: list[int]
    size: dict[int, int]  # bytes of each value
    producer: dict[int, int]  # the op that makes each value; -1: there at the start
    dropped: dict[int, int]  # the op after which the program drops each value; n_ops: never
    non_evictable: frozenset[int]  # values that no search may choose, whatever the policy
    collectives: frozenset[int]  # ops that never run again
    begins: tuple[int, ...]  # the first op of each step of the trace
    copies: CopyBounds | None = None  # what may be offloaded; None: nothing

    @property
    def n_ops(self) -> int:
        return len(self.ins)

    @property
    def base_cost(self) -> int:
        """Cost of each op once."""
        return sum(self.cost)

    @cached_property
    def initial(self) -> frozenset[int]:
        return frozenset(v for v, p in self.producer.items() if p < 0)

    @cached_property
    def forced(self) -> list[frozenset[int]]:
        """What is resident all through each stage, whatever is decided; one more for after the last."""
        return [self._staying(t, self._stay) for t in range(self.n_ops + 1)]

    @cached_property
    def _stay(self) -> frozenset[int]:
        """What neither is made again nor offloaded."""
        return self.non_evictable - self.offloadable

    def _staying(self, t: int, among: frozenset[int]) -> frozenset[int]:
        """What of these is resident all through stage t, whatever is decided."""
        return frozenset(v for v in among & self._stay if self.producer[v] < t <= self.dropped[v])

    @cached_property
    def offloadable(self) -> frozenset[int]:
        """The values that may be copied to the host."""
        return frozenset(self.copies.ns) if self.copies else frozenset()

    @cached_property
    def runs_once(self) -> frozenset[int]:
        """The ops whose results are kept or offloaded, but not made again: random ones that are kept, collectives."""
        return self.collectives | {self.producer[v] for v in self.non_evictable & self.offloadable}

    @cached_property
    def last_use(self) -> dict[int, int]:
        """The last op of the program that has each value as input; -1: none."""
        found = dict.fromkeys(self.size, -1)
        for op, row in enumerate(self.ins):
            for v in row:
                found[v] = op
        return found

    @cached_property
    def live(self) -> list[int]:
        """Bytes while each op runs, if every value is there from when it is made to its last use."""
        change = [0] * (self.n_ops + 1)
        for v, last in self.last_use.items():
            made = max(self.producer[v], 0)
            until = max(last, made, self.dropped[v] if v in self.non_evictable else 0)
            change[made] += self.size[v]
            change[min(until + 1, self.n_ops)] -= self.size[v]
        return [held + own for held, own in zip(itertools.accumulate(change), self.inside, strict=False)]

    @cached_property
    def last_need(self) -> dict[int, int]:
        """The last stage in which each value may be of use, to an op of the program or to a recomputation."""
        need = dict.fromkeys(self.size, -1)
        for op in reversed(range(self.n_ops)):
            last = max([op, *(need[w] for w in self.outs[op])])
            for v in self.ins[op]:
                need[v] = max(need[v], last)
        return need

    @cached_property
    def bytes_unit(self) -> int:
        """The greatest amount of which every size is a multiple."""
        return math.gcd(*self.size.values(), *self.inside) or 1

    @cached_property
    def cost_unit(self) -> int:
        """The greatest cost of which every op's is a multiple; where ops may wait for copies, 1 ns."""
        return 1 if self.copies else math.gcd(*self.cost) or 1

    def bytes_of(self, values: frozenset[int]) -> int:
        return sum(self.size[v] for v in values)

    def at_least(self, t: int) -> frozenset[int]:
        """What is resident in any schedule while op t runs for the first time."""
        return self._resident(t, self._stay)[1]

    def _resident(self, t: int, among: frozenset[int]) -> tuple[frozenset[int], frozenset[int]]:
        """What of these is forced to be there before or after op t; and that with what op t has, while it runs."""
        after = self._staying(t + 1, among)
        forced = self._staying(t, among) | after
        replaced = frozenset(u for u, _ in self.pairs[t]) - after
        return forced, ((forced | frozenset(self.ins[t])) - replaced) | frozenset(self.outs[t])

    @cached_property
    def needed(self) -> list[int]:
        """Of each op, the bytes of `at_least` and of its temporaries."""
        change = [0] * (self.n_ops + 2)
        for v in self._stay:
            if self.producer[v] < self.dropped[v]:
                change[max(self.producer[v], 0)] += self.size[v]
                change[self.dropped[v] + 1] -= self.size[v]
        needed = []
        for t, forced_bytes in enumerate(itertools.accumulate(change[: self.n_ops])):
            touched = frozenset(itertools.chain(self.ins[t], self.outs[t], *self.pairs[t]))
            forced, there = self._resident(t, touched)
            needed.append(forced_bytes - self.bytes_of(forced) + self.bytes_of(there) + self.inside[t])
        return needed

    def whole_cost(self, bound: float) -> int:
        """The least cost that a sum of ops' costs can have and not be below `bound`, rounding errors aside."""
        units = bound / self.cost_unit
        return math.ceil(units - 1e-6 * max(1.0, abs(units))) * self.cost_unit

    def taken_over(self, op: int, stage: int, after: frozenset[int]) -> int:
        """Bytes that new versions take over from older ones that are gone `after` a run of `op` in `stage`."""
        held = self.forced[stage]
        return sum(
            self.size[u]
            for u, w in self.pairs[op]
            if u not in after and (op == stage or (u not in held and w not in held))
        )


def problem_of(trace: Trace, *, link: Link | None = None, host_memory: int | None = None) -> Problem:
    """The problem of a trace: values in single bytes, non-evictable only what is so under every policy.

    What is computed from a collective's result is evictable, even where the program drops that result earlier: a replay
    keeps what its own choices would lose otherwise, and these choices differ by policy.

    link: what values are offloaded over; None: none is. host_memory: bytes for their copies; None: no limit.
    """
    program = lower(trace, in_place=InPlace.COPY, pinning=Pinning.DECLARED, granule=1)
    problem = _Reader(program).problem(trace)
    if link is None:
        return problem
    return replace(problem, copies=copies_of(program, trace, problem.size, link, host_memory))


class _Reader:
    """Takes lists out of the arrays for the kernels."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def problem(self, trace: Trace) -> Problem:
        program, role = self.program, trace.role
        values, ops, ins, outs = (x.tolist() for x in (program.values, program.ops, program.ins, program.outs))
        spans = list(itertools.pairwise(ops))
        made = [outs[a[s.OUTS] : a[s.TEMPS]] for a, _ in spans]
        storages = program.storage.tolist()
        kept = [v for v, storage in enumerate(storages) if storage >= 0]
        collectives = frozenset(np.flatnonzero(trace.peers).tolist())
        carried = frozenset(program.carry[:, s.FROM].tolist())
        return Problem(
            ins=[ins[a[s.INS] : b[s.INS]] for a, b in spans],
            outs=made,
            pairs=[[(values[w][s.OLDER], w) for w in row if values[w][s.OLDER] >= 0] for row in made],
            inside=[sum(values[x][s.BYTES] for x in outs[a[s.TEMPS] : b[s.OUTS]]) for a, b in spans],
            cost=[a[s.COST] for a, _ in spans],
            size={v: values[v][s.BYTES] for v in kept},
            producer={v: values[v][s.PRODUCER] for v in kept},
            dropped={v: int(program.dropped[v]) for v in kept},
            non_evictable=carried.union(
                v
                for v in kept
                if (p := values[v][s.PRODUCER]) < 0 or p in collectives or role[storages[v]] in KEPT_ROLES
            ),
            collectives=collectives,
            begins=tuple(np.searchsorted(trace.step, range(trace.n_steps)).tolist()),
        )
