"""The least cost of a training step in so many bytes: exactly, or between two bounds."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from coopsim.study.optimum import highs
from coopsim.study.optimum.model import ModelOfMoments
from coopsim.study.optimum.model_copies import columns, model_of
from coopsim.study.optimum.moment import Cut, cut, moments
from coopsim.study.optimum.order import arrange, needs
from coopsim.study.optimum.problem import Problem

_PARTS = (1.0, 0.99, 0.97)  # of the budget for the moment: memory after it is not in its program
_SHARES = (0.5, 1e-6)  # an op runs again if its share in the relaxed program is more


def schedules(problem: Problem, budget: int, seconds: Callable[[], float]) -> Iterator[list[int]]:
    """Ops in the order in which they run, for some cuts at the fullest moments; they may fit or not.

    What a cut makes again is made again once, as late as possible. seconds: says how many are left.
    """
    chain = moments(problem, budget, problem.live)
    for part in _PARTS if chain else ():
        programs = [Cut(problem, int(part * budget), moment, until) for moment, until in chain]
        points = [highs.minimise(program.rows, seconds(), relaxed=True).point for program in programs]
        for share in _SHARES if None not in points else ():
            runs = list(range(chain[0][0] + 1))
            for program, point in zip(programs, points, strict=True):
                runs += late(program, point or [], share)
            yield runs


def late(program: Cut, point: list[float], share: float) -> list[int]:
    """The ops after the moment; before each what it needs that is to be made again, in program order."""
    p = program.problem
    again = {op for op, column in program.again.items() if point[column] > share}
    kept = program.there | {v for v, column in program.keep.items() if point[column] >= 1 - share}
    runs: list[int] = []
    for op in range(program.moment + 1, program.until + 1):
        wanted: set[int] = set()
        open_ops = [op]
        while open_ops:
            for v in p.ins[open_ops.pop()]:
                producer = p.producer[v]
                if producer in again and v not in kept:
                    again.remove(producer)
                    wanted.add(producer)
                    open_ops.append(producer)
        runs += [*sorted(wanted), op]
    return runs


def knapsacks(problem: Problem, budget: int) -> list[float] | None:
    """Of each op t, what recomputation costs at least because of the bytes while t runs; None if nothing fits.

    While op t runs, the values that later ops of the program use are resident or will be made again, each by its
    producer, whose cost is paid again once at least. The cheapest way to be rid of the bytes that are too many is a
    knapsack; its relaxation (the last op in part) is taken.
    """
    values, found = _Values(problem), []
    for t, nbytes in enumerate(problem.live):
        cost = values.knapsack(t, budget) if nbytes > budget else 0.0
        if cost is None:
            return None
        found.append(cost)
    return found


class _Values:
    """The values of a problem as arrays: a row per value."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.row = {v: k for k, v in enumerate(problem.size)}
        self.bytes = np.array(list(problem.size.values()), np.int64)
        self.producer = np.array([problem.producer[v] for v in self.row], np.int64)
        self.last_use = np.array([problem.last_use[v] for v in self.row], np.int64)
        self.op_cost = np.array(problem.cost, float)

    def knapsack(self, t: int, budget: int) -> float | None:
        """Of op t; None if the bytes are too many with all evicted."""
        there = self.problem.at_least(t)
        later = (self.last_use > t) & (self.producer < t)
        later[[self.row[v] for v in there]] = False
        excess = self.problem.bytes_of(there) + self.problem.inside[t] + int(self.bytes[later].sum()) - budget
        again = later & (self.producer >= 0)
        by_op = np.bincount(self.producer[again], self.bytes[again], self.problem.n_ops)
        ops = np.flatnonzero(by_op)
        ops = ops[np.argsort(self.op_cost[ops] / by_op[ops], kind="stable")]
        nbytes = by_op[ops]
        if excess > nbytes.sum():
            return None
        before = nbytes.cumsum() - nbytes
        return float((self.op_cost[ops] * np.clip((excess - before) / nbytes, 0.0, 1.0)).sum())


@dataclass(frozen=True)
class Optimum:
    """What is known of the least cost.

    status: `optimal` (proven: cost_ns == lower_bound_ns), `feasible` (a schedule is known, and a bound below it),
    `bounded` (no schedule is known that fits, only the bound), `infeasible` (proven: no schedule fits).
    bound: where the lower bound comes from: `exact`, `solver` (its bound when the time was up), `relaxation`,
    `cut`, `knapsack`, `base`.
    """

    status: str
    budget_bytes: int
    n_ops: int
    base_cost_ns: int
    lower_bound_ns: int
    bound: str
    cost_ns: int | None = None
    runs: Sequence[int] = ()  # the ops in the order in which they run, if a schedule is known; not if it has copies
    seconds: float = 0.0

    @property
    def overhead(self) -> float | None:
        return None if self.cost_ns is None else self._ratio(self.cost_ns)

    @property
    def lower_bound(self) -> float:
        """The lower bound as an overhead."""
        return self._ratio(self.lower_bound_ns)

    def _ratio(self, cost: int) -> float:
        return cost / self.base_cost_ns if self.base_cost_ns else 1.0


_MOST_COLUMNS = 60_000  # beyond, building and relaxing the program takes minutes


def solve(
    problem: Problem,
    budget: int,
    *,
    seconds: float = 60.0,
    known: Iterable[Sequence[int]] = (),
    costs: Iterable[int] = (),
    whole: bool = True,
) -> Optimum:
    """The least cost of the problem in `budget` bytes, or what can be said of it in so many seconds.

    known: schedules (ops in the order in which they run), such as a policy's; the solver starts from the cheapest that
    fits, which bounds the result from above. costs: of schedules that fit, such as replays, if the problem has copies:
    then the result has no schedule, only its cost. whole: whether the program of all moments is solved where it is
    small enough. What it bounds rests on the solver, the cut on exact arithmetic.
    """
    return _Search(problem, budget, seconds, whole=whole).run(known, costs)


class _Search:
    """Closes in from both sides: `best` is the cheapest schedule so far, `lower` is below all schedules."""

    def __init__(self, problem: Problem, budget: int, seconds: float, *, whole: bool) -> None:
        self.problem, self.budget, self.whole = problem, budget, whole
        self.began = time.monotonic()
        self.seconds = seconds
        self.best: list[int] | None = None
        self.best_cost = math.inf
        self.lower, self.bound = problem.base_cost, "base"

    def run(self, known: Iterable[Sequence[int]], costs: Iterable[int]) -> Optimum:
        p = self.problem
        highs.solver()
        for runs in (range(p.n_ops), *known):
            self._offer(runs)
        self._know(costs)
        if p.bytes_of(p.initial) > self.budget:
            return self._result("infeasible")
        worth = knapsacks(p, self.budget)
        if p.copies is None:
            if worth is None:
                return self._result("infeasible")
            self._raise(p.base_cost + p.whole_cost(max(worth, default=0.0)), "knapsack")
            if self._closed():
                return self._result()
        again = cut(p, self.budget, (p.live, worth or p.live), self._left)
        if again is not None:
            self._raise(p.base_cost + p.whole_cost(again), "cut")
        elif self.best_cost == math.inf:
            return self._result("infeasible")
        for runs in schedules(p, self.budget, self._left) if p.copies is None else ():
            self._offer(runs)
        if self._closed():
            return self._result()
        if columns(p) > _MOST_COLUMNS or not self.whole:
            return self._result()
        solve_program = self._program if p.copies is None else self._program_with_copies
        return self._result("infeasible" if solve_program() else None)

    def _program(self) -> bool:
        """Solve the mixed-integer program. True: it has no solution, and no schedule that fits is known."""
        model = ModelOfMoments(self.problem, self.budget)
        if not model.possible:
            return True
        start = model.point(needs(self.problem, self.best)) if self.best is not None else None
        relaxed = highs.minimise(model.rows, self._left() / 2, relaxed=True)
        if relaxed.infeasible:
            return self.best is None
        if relaxed.finished:
            self._raise(self._cost(relaxed.bound), "relaxation")
        answer = highs.minimise(model.rows, self._left(), start)
        if answer.infeasible:
            return self.best is None
        if answer.point is not None:
            reruns, starts = model.choice(answer.point)
            runs, failed = arrange(self.problem, self.budget, reruns, starts)
            if not failed:
                self._offer(runs)
        if answer.finished:
            self._raise(self.problem.base_cost + int(answer.bound) * self.problem.cost_unit, "exact")
        else:
            self._raise(self._cost(answer.bound), "solver")
        return False

    def _program_with_copies(self) -> bool:
        """As _program. Asked for is a point that is cheaper than the cheapest known, which is optimal if there is none.

        It is no schedule: copies are spread over time.
        """
        model = model_of(self.problem, self.budget)
        if not model.possible:
            return True
        relaxed = highs.minimise(model.rows, self._left() / 2, relaxed=True)
        if relaxed.infeasible:
            return self.best_cost == math.inf
        if relaxed.finished:
            self._raise(self._cost(relaxed.bound), "relaxation")
        if self._closed():
            return False
        if self.best_cost < math.inf:
            model.cheaper_than(int(self.best_cost))
        answer = highs.minimise(model.rows, self._left())
        if answer.infeasible:
            if self.best_cost == math.inf:
                return True
            self._raise(int(self.best_cost), "exact")
        elif answer.finished:
            self._raise(self._cost(answer.bound), "exact")
        else:
            self._raise(self._cost(answer.bound), "solver")
        return False

    def _know(self, costs: Iterable[int]) -> None:
        """Costs of schedules that are not here to be counted again, but fit."""
        for cost in costs:
            if self.problem.copies is not None and cost < self.best_cost:
                self.best, self.best_cost = None, cost

    def _left(self) -> float:
        return max(self.seconds - (time.monotonic() - self.began), 0.0)

    def _cost(self, units: float) -> int:
        return self.problem.base_cost + self.problem.whole_cost(units * self.problem.cost_unit)

    def _raise(self, lower: int, bound: str) -> None:
        if bound in ("relaxation", "exact", "solver") and lower > self.best_cost:
            return  # the solver counts with tolerances: a schedule that fits proves it wrong
        if lower > self.lower or bound == "exact":
            self.lower, self.bound = max(lower, self.lower), bound

    def _offer(self, runs: Sequence[int]) -> None:
        cost = sum(self.problem.cost[op] for op in runs)
        if cost < self.best_cost and needs(self.problem, runs).peak <= self.budget:
            self.best, self.best_cost = list(runs), cost

    def _closed(self) -> bool:
        return self.best_cost <= self.lower

    def _result(self, status: str | None = None) -> Optimum:
        if status is None:
            status = "optimal" if self._closed() else "bounded" if self.best_cost == math.inf else "feasible"
        known = status in ("optimal", "feasible")
        return Optimum(
            status=status,
            budget_bytes=self.budget,
            n_ops=self.problem.n_ops,
            base_cost_ns=self.problem.base_cost,
            lower_bound_ns=self.lower,
            bound=self.bound,
            cost_ns=int(self.best_cost) if known else None,
            runs=self.best or () if known else (),
            seconds=time.monotonic() - self.began,
        )
