"""A lower bound for long traces: what must run again after one moment of the step, as a small linear program.

The moment is the first run of an op. A value made by then that is used later is resident at that moment, within the
budget, or is made again after it, or comes back from the host. In the program, with columns for the values made and the
ops run by then:

    keep[v]     value v stays resident
    again[i]    op i runs again
    away[v]     value v is on the host; it has been copied before the moment and is copied back after it (around.py)

Programs of one moment as rows of the program of all stages, whose bound with fractions they raise.

In fractions, half a recomputation in each of several stages uses half of each input. At one moment a recomputation is
one, whenever it is. Fractions lose little here: at a given price per byte kept the program is a minimum cut, which has
a solution in whole numbers; only the budget mixes two of them. Solved in whole numbers, the bound was 0.00 to 0.14
points higher on five networks at 70, 50 and 30 %. More moments, or some of Checkmate's stages, raised the bound in one
of the cases tried.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from coopsim.study.optimum import highs
from coopsim.study.optimum.around import Delays, Span, copy_around
from coopsim.study.optimum.model import ModelOfMoments, Rows, Term, power_of_two
from coopsim.study.optimum.problem import Problem


def cut(problem: Problem, budget: int, worth: Iterable[Sequence[float]], seconds: Callable[[], float]) -> int | None:
    """What recomputation costs at least, in ns: the bounds of one moment in each step of the trace, added up.

    worth: one or more guesses of what each op is worth as a moment; the best result counts. seconds: says how many are
    left; a program that is not solved in them counts nothing. None: no schedule fits.
    """
    most = 0
    for chain in dict.fromkeys(moments(problem, budget, guess) for guess in worth):
        total = 0
        for k, (moment, until) in enumerate(chain):
            program = Cut(problem, budget, moment, until, first=k == 0)
            answer = highs.minimise(program.rows, seconds(), relaxed=True)
            if answer.infeasible:
                return None
            if answer.finished:
                total += program.proven(answer.prices)
        most = max(most, total)
    return most


def moments(problem: Problem, budget: int, worth: Sequence[float]) -> tuple[tuple[int, int], ...]:
    """Of each step whose bytes exceed the budget the op that is worth most; and the next of them, or the last op."""
    spans = itertools.pairwise([*problem.begins, problem.n_ops])
    chosen = [max(range(a, b), key=lambda op: (worth[op], problem.live[op])) for a, b in spans]
    return tuple(itertools.pairwise([*(op for op in chosen if problem.live[op] > budget), problem.n_ops - 1]))


class Cut:
    """The program of the moment at which op `moment` runs for the first time.

    Counted is what runs again from then on, up to the first run of op `until`, and how long ops wait for copies: the
    costs of spans that do not overlap add up. first: no other moment comes before, so what delays it counts as well.
    """

    def __init__(self, problem: Problem, budget: int, moment: int, until: int, *, first: bool = True) -> None:
        self.problem, self.rows = problem, Rows()
        self.moment, self.until, self.first = moment, until, first
        self.there = problem.at_least(moment)
        self.again: dict[int, int] = {}
        self.keep: dict[int, int] = {}
        self.away: dict[int, int] = {}
        inputs = itertools.chain.from_iterable(problem.ins[moment + 1 : until + 1])
        used = [v for v in dict.fromkeys(inputs) if problem.producer[v] <= moment and v not in self.there]
        self.scale = power_of_two(1e6 / (problem.base_cost or 1))
        self._columns(moment, used)
        self.delays = Delays()
        if problem.copies is not None:
            span = Span(problem, self.rows, moment, until, first, self.scale, self.again, self.away)
            self.delays = copy_around(span, problem.copies)
        for v in used:
            self.rows.at_most(-1, *self._has(v))
        for op, column in self.again.items():
            for v in problem.ins[op]:
                if v not in self.there:
                    self.rows.at_most(0, (column, 1), *self._has(v))
        scale = power_of_two(1000 / (budget or 1))
        room = budget - problem.bytes_of(self.there) - problem.inside[moment]
        self.rows.at_most(room * scale, *((column, problem.size[v] * scale) for v, column in self.keep.items()))

    def _columns(self, moment: int, used: Sequence[int]) -> None:
        """Of what is used after the moment, and of what can be of use to make it again."""
        p, wanted = self.problem, set(used)
        for op in range(moment, -1, -1):
            if not wanted.isdisjoint(p.outs[op]) and op not in p.runs_once:
                self.again[op] = self.rows.column(p.cost[op] * self.scale)
                wanted.update(v for v in p.ins[op] if v not in self.there)
        for v in sorted(wanted):
            self.keep[v] = self.rows.column()
            if v in p.offloadable:
                self.away[v] = self.rows.column()

    def _has(self, v: int) -> list[Term]:
        """What makes v available after the moment, as terms to subtract."""
        columns = (self.keep[v], self.again.get(self.problem.producer[v]), self.away.get(v))
        return [(c, -1.0) for c in columns if c is not None]

    def proven(self, prices: Sequence[float]) -> int:
        """The least cost in ns, as these prices of the rows prove it."""
        return math.ceil(least(self.rows, prices) / Fraction(self.scale))


def least(rows: Rows, prices: Sequence[float]) -> Fraction:
    """A bound below every point of the relaxed program, by weak duality, in exact arithmetic.

    It holds whatever the prices are; those of an optimal solution make it that solution's cost. prices: a row's, not
    positive; one that is counts as 0.
    """
    left = [Fraction(cost) for cost in rows.cost]
    total = Fraction(0)
    for row, price in enumerate(prices):
        if price < 0:
            exact = Fraction(round(price * _GRAINS), _GRAINS)
            total += exact * Fraction(rows.upper[row])
            for k in range(rows.start[row], rows.start[row + 1]):
                left[rows.index[k]] -= exact * Fraction(rows.value[k])
    return total + sum(x * Fraction(upper) for x, upper in zip(left, rows.column_upper, strict=True) if x < 0)


_GRAINS = 1 << 40  # prices are rounded to such a part of one, so that the fractions stay short


def embed(model: ModelOfMoments, cut: Cut) -> None:
    """Add the rows of a cut up to the end of the trace; what it counts once is at most what the stages count."""
    at, rows, n_ops = cut.moment + 1, model.rows, model.problem.n_ops
    place = {column: model.keep[at, v] for v, column in cut.keep.items() if (at, v) in model.keep}
    for column, upper in enumerate(cut.rows.column_upper):
        if column not in place:
            place[column] = rows.column(integer=False, upper=upper)
    for k, bound in enumerate(cut.rows.upper):
        span = range(cut.rows.start[k], cut.rows.start[k + 1])
        rows.at_most(bound, *((place[cut.rows.index[j]], cut.rows.value[j]) for j in span))
    for op, column in cut.again.items():
        again = [(model.again[t, op], -1.0) for t in range(at, n_ops) if (t, op) in model.again]
        rows.at_most(0, (place[column], 1.0), *again)
    for delay, stages in ((cut.delays.before, range(at)), (cut.delays.after, range(at, n_ops))):
        if delay is not None:
            rows.at_most(0, (place[delay], 1.0), *((c, -x * cut.scale) for c, x in model.delays(stages)))
