"""The mixed-integer program: which ops run again in which stage, and what is kept from stage to stage.

Checkmate's variables, but constraints that hold for recomputations in any order (docs/optimum.md), so that
the least cost of this program is a lower bound for every schedule. The rows are numbered as they are written.

    again[t, i]   op i < t runs again in stage t
    keep[t, v]    value v is resident when stage t starts
    stay[t, v]    value v is resident all through stage t, up to the first run of op t
    bulk[t]       bytes of the values that stay
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from coopsim.study.optimum.order import Needs, Stages
from coopsim.study.optimum.problem import Problem

Term = tuple[int, float]  # column, coefficient
INFINITY = float("inf")


@dataclass
class Rows:
    """A linear program as it is written: columns with bounds and costs, rows with bounds."""

    cost: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    column_upper: list[float] = field(default_factory=list)
    start: list[int] = field(default_factory=lambda: [0])
    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: bool = True  # every point in whole numbers costs a whole number

    def column(self, cost: float = 0.0, *, integer: bool = True, upper: float = 1.0) -> int:
        self.cost.append(cost)
        self.integer.append(integer)
        self.column_upper.append(upper)
        return len(self.cost) - 1

    def at_most(self, bound: float, *terms: Term) -> None:
        """The sum of the terms is at most `bound`."""
        sums: dict[int, float] = {}
        for column, coefficient in terms:
            sums[column] = sums.get(column, 0.0) + coefficient
        self.index += sums.keys()
        self.value += sums.values()
        self.start.append(len(self.index))
        self.upper.append(bound)


def power_of_two(x: float) -> float:
    """One near x: scaled by it, whole numbers are floats without rounding."""
    return 2.0 ** round(math.log2(x))


class ModelOfMoments:
    """The program for one problem and budget. Costs and bytes are in units that make them whole and small."""

    def __init__(self, problem: Problem, budget: int) -> None:
        self.problem, self.rows = problem, Rows()
        self.room = budget // problem.bytes_unit
        self.again: dict[tuple[int, int], int] = {}
        self.keep: dict[tuple[int, int], int] = {}
        self.stay: dict[tuple[int, int], int] = {}
        self.bulk: dict[int, int] = {}
        self.possible = True  # whether each op alone fits; if not, no schedule does
        self._columns()
        for stage in range(problem.n_ops):
            self._dependencies(stage)
            self._memory_of_first_run(stage)
            self._memory_of_reruns(stage)

    def bytes_of(self, v: int) -> int:
        return self.problem.size[v] // self.problem.bytes_unit

    @cached_property
    def candidates(self) -> list[list[int]]:
        """The values about which there is a choice at the start of each stage; one more for after the last."""
        p = self.problem
        result: list[list[int]] = [[] for _ in range(p.n_ops + 1)]
        for v, last in p.last_need.items():
            for t in range(max(p.producer[v] + 1, 0), last + 1):
                if v not in p.forced[t]:
                    result[t].append(v)
        return result

    @cached_property
    def users(self) -> dict[int, list[int]]:
        """The ops that have each value as input."""
        result: dict[int, list[int]] = {v: [] for v in self.problem.size}
        for op, row in enumerate(self.problem.ins):
            for v in row:
                result[v].append(op)
        return result

    def _columns(self) -> None:
        p, rows = self.problem, self.rows
        for t in range(p.n_ops):
            for i in range(t):
                if i not in p.runs_once and any(p.last_need[v] >= t for v in p.outs[i]):
                    self.again[t, i] = rows.column(p.cost[i] / p.cost_unit)
            for v in self.candidates[t]:
                self.keep[t, v] = rows.column()
        self._more_columns()
        for t in range(p.n_ops):
            for v in self.candidates[t]:
                if v in p.ins[t] or (t + 1, v) in self.keep:
                    self.stay[t, v] = self._staying(t, v)

    def _more_columns(self) -> None:
        """Of other ways to bring values back."""

    def _back(self, t: int, v: int) -> list[Term]:
        """What brings v back in stage t, as terms to subtract."""
        column = self.again.get((t, self.problem.producer[v]))
        return [] if column is None else [(column, -1.0)]

    def _staying(self, t: int, v: int) -> int:
        """Resident all through stage t: used by op t or kept after it, and not brought back in the stage."""
        back = self._back(t, v)
        used = v in self.problem.ins[t]
        if not back:
            return self.keep[t, v] if used else self.keep[t + 1, v]
        column = self.rows.column(integer=False)
        if used:
            self.rows.at_most(-1, *back, (column, -1))
        else:
            self.rows.at_most(0, (self.keep[t + 1, v], 1), *back, (column, -1))
        return column

    def _has(self, t: int, v: int) -> list[Term]:
        """What makes v available in stage t, as terms to subtract."""
        column = self.keep.get((t, v))
        return ([] if column is None else [(column, -1.0)]) + self._back(t, v)

    def _dependencies(self, t: int) -> None:
        p, rows = self.problem, self.rows
        runs = [(t, None), *((i, self.again[t, i]) for i in range(t) if (t, i) in self.again)]
        for op, column in runs:
            for v in p.ins[op]:
                if v not in p.forced[t]:
                    if column is None:
                        rows.at_most(-1, *self._has(t, v))
                    else:
                        rows.at_most(0, (column, 1), *self._has(t, v))
        for v in self.candidates[t + 1]:
            if p.producer[v] < t and v not in p.forced[t]:
                rows.at_most(0, (self.keep[t + 1, v], 1), *self._has(t, v))

    def _memory_of_first_run(self, t: int) -> None:
        """While op t runs for the first time, what is kept after it is resident, and what it uses and makes."""
        p = self.problem
        there = p.at_least(t)
        used = sum(self.bytes_of(v) for v in there) + p.inside[t] // p.bytes_unit
        kept = [(self.keep[t + 1, v], float(self.bytes_of(v))) for v in self.candidates[t + 1] if v not in there]
        self._fits(used, kept)

    def _memory_of_reruns(self, t: int) -> None:
        """While op i runs again in stage t, what stays all through it is resident, and what i uses and makes."""
        p = self.problem
        reruns = [i for i in range(t) if (t, i) in self.again]
        if not reruns:
            return
        held = p.forced[t]
        stays = {v: c for v in self.candidates[t] if (c := self.stay.get((t, v))) is not None}
        bulk = self.bulk[t] = self.rows.column(integer=False, upper=INFINITY)
        self._scaled(0, [(bulk, -1.0), *((c, float(self.bytes_of(v))) for v, c in stays.items())])
        for i in reruns:
            loose = {u for u, w in p.pairs[i] if u not in held and w not in held}
            own = {*p.ins[i], *p.outs[i]} - loose - held
            need = sum(self.bytes_of(v) for v in own) + p.inside[i] // p.bytes_unit
            used = sum(map(self.bytes_of, held))
            terms = [(stays[v], -float(self.bytes_of(v))) for v in own if v in stays]
            terms += [(bulk, 1.0), (self.again[t, i], float(need))]
            self._fits(used, terms)
            for w in set(p.outs[i]) - held:
                for k in self.users[w]:
                    if (t, k) in self.again:
                        self._waits(
                            t, used, terms, w, k, [v for v in p.ins[k] if v not in own and v not in held], stays
                        )

    def _waits(
        self, t: int, used: int, terms: list[Term], w: int, k: int, others: list[int], stays: dict[int, int]
    ) -> None:
        """As above; and if op k runs again and waits for w, its `others` are resident if not brought back too."""
        total, more = 0, list(terms)
        for v in others:
            nbytes = float(self.bytes_of(v))
            more += [(column, -nbytes) for column, _ in self._back(t, v)]
            if v in stays:
                more.append((stays[v], -nbytes))
            total += self.bytes_of(v)
        if total:
            more.append((self.again[t, k], float(total)))
            more += [(column, -float(total)) for column in self._elsewhere(t, w)]
            self._scaled(self.room - used, more)

    def _elsewhere(self, t: int, w: int) -> list[int]:
        """Columns of which one is 1 if an op of stage t need not wait for w to be made again."""
        return [self.keep[t, w]] if (t, w) in self.keep else []

    def _fits(self, used: int, terms: list[Term]) -> None:
        if used > self.room:
            self.possible = False
        self._scaled(self.room - used, terms)

    def _scaled(self, bound: int, terms: list[Term]) -> None:
        """A row of bytes, as thousandths of the budget: the solver's tolerances are absolute."""
        scale = 1000 / self.room if self.room > 1000 else 1.0
        self.rows.at_most(bound * scale, *((column, x * scale) for column, x in terms))

    def delays(self, stages: Iterable[int]) -> Iterator[Term]:
        """What makes these stages longer, in ns."""
        wanted = set(stages)
        return ((column, float(self.problem.cost[i])) for (t, i), column in self.again.items() if t in wanted)

    def point(self, needs: Needs) -> list[float]:
        """The columns' values for a schedule."""
        p, x = self.problem, [0.0] * len(self.rows.cost)
        for (t, i), column in self.again.items():
            x[column] = float(i in needs.reruns[t])
        for (t, v), column in self.keep.items():
            x[column] = float(v in needs.starts[t])
        for (t, v), column in self.stay.items():
            kept = v in p.ins[t] or v in needs.starts[t + 1]
            x[column] = float(kept and p.producer[v] not in needs.reruns[t])
            if t in self.bulk:
                x[self.bulk[t]] += x[column] * self.bytes_of(v)
        return x

    def choice(self, point: list[float]) -> tuple[Stages, list[frozenset[int]]]:
        """What runs again in each stage, and what is resident when it starts, in a point of the program."""
        p = self.problem
        reruns: list[set[int]] = [set() for _ in range(p.n_ops)]
        starts = [set(p.forced[t]) for t in range(p.n_ops)]
        for (t, i), column in self.again.items():
            if point[column] > 0.5:
                reruns[t].add(i)
        for (t, v), column in self.keep.items():
            if point[column] > 0.5:
                starts[t].add(v)
        return [frozenset(r) for r in reruns], [frozenset(s) for s in starts]
