"""A lower bound that needs no solver: what does not fit while one op runs, and is used later, must be made again."""

import numpy as np

from coopsim.study.optimum.problem import Problem


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
