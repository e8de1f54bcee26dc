"""The least cost of a training step in so many bytes: exactly, or between two bounds."""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coopsim.optimum import highs
from coopsim.optimum.bounds import knapsacks
from coopsim.optimum.late import schedules
from coopsim.optimum.model import Model
from coopsim.optimum.moment import cut
from coopsim.optimum.order import arrange, needs
from coopsim.optimum.problem import Problem


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
    runs: Sequence[int] = ()  # the ops in the order in which they run, if a schedule is known
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
    whole: bool = True,
) -> Optimum:
    """The least cost of the problem in `budget` bytes, or what can be said of it in so many seconds.

    known: schedules (ops in the order in which they run), such as a policy's; the solver starts from the cheapest that
    fits, which bounds the result from above. whole: whether the program of all moments is solved where it is small
    enough. What it bounds rests on the solver, the cut on exact arithmetic.
    """
    return _Search(problem, budget, seconds, whole=whole).run(known)


class _Search:
    """Closes in from both sides: `best` is the cheapest schedule so far, `lower` is below all schedules."""

    def __init__(self, problem: Problem, budget: int, seconds: float, *, whole: bool) -> None:
        self.problem, self.budget, self.whole = problem, budget, whole
        self.began = time.monotonic()
        self.seconds = seconds
        self.best: list[int] | None = None
        self.best_cost = math.inf
        self.lower, self.bound = problem.base_cost, "base"

    def run(self, known: Iterable[Sequence[int]]) -> Optimum:
        p = self.problem
        highs.solver()
        for runs in (range(p.n_ops), *known):
            self._offer(runs)
        costs = knapsacks(p, self.budget)
        if costs is None or p.bytes_of(p.initial) > self.budget:
            return self._result("infeasible")
        self._raise(p.base_cost + p.whole_cost(max(costs, default=0.0)), "knapsack")
        if self._closed():
            return self._result()
        again = cut(p, self.budget, (p.live, costs), self._left)
        if again is not None:
            self._raise(p.base_cost + p.whole_cost(again), "cut")
        elif self.best is None:
            return self._result("infeasible")
        for runs in schedules(p, self.budget, self._left):
            self._offer(runs)
        if self._closed():
            return self._result()
        columns = sum(p.n_ops - i for i in range(p.n_ops)) + sum(
            last - p.producer[v] for v, last in p.last_need.items()
        )
        if columns > _MOST_COLUMNS or not self.whole:
            return self._result()
        return self._result("infeasible" if self._program() else None)

    def _program(self) -> bool:
        """Solve the mixed-integer program. True: it has no solution, and no schedule that fits is known."""
        model = Model(self.problem, self.budget)
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
            status = "optimal" if self._closed() else "bounded" if self.best is None else "feasible"
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
