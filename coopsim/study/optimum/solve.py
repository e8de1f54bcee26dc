"""The least cost of a training step in so many bytes: exactly, or between two bounds."""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coopsim.study.optimum import highs
from coopsim.study.optimum.bounds import knapsacks
from coopsim.study.optimum.late import schedules
from coopsim.study.optimum.model import ModelOfMoments
from coopsim.study.optimum.model_copies import columns, model_of
from coopsim.study.optimum.moment import cut
from coopsim.study.optimum.order import arrange, needs
from coopsim.study.optimum.problem import Problem


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
