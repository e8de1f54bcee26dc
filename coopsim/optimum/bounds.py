"""A lower bound that needs no solver: what does not fit while one op runs, and is used later, must be made again."""

from coopsim.optimum.problem import Problem


def knapsack(problem: Problem, budget: int) -> int | None:
    """A lower bound of the cost; None if nothing fits.

    While op t runs, the values that later ops of the program use are resident or will be made again, each by its
    producer, whose cost is paid again once at least. The cheapest way to be rid of the bytes that are too many is a
    knapsack; its relaxation (the last op in part) is taken for every t, and the dearest t counts.
    """
    last_use = dict.fromkeys(problem.size, -1)
    for op, row in enumerate(problem.ins):
        for v in row:
            last_use[v] = op
    most = 0.0
    for t in range(problem.n_ops):
        there = problem.at_least(t)
        excess = problem.bytes_of(there) + problem.inside[t] - budget
        by_op: dict[int, int] = {}
        for v, last in last_use.items():
            if last > t and problem.producer[v] < t and v not in there:
                by_op[problem.producer[v]] = by_op.get(problem.producer[v], 0) + problem.size[v]
        excess += sum(by_op.values())
        cost = 0.0
        for op, nbytes in sorted(by_op.items(), key=lambda x: problem.cost[x[0]] / x[1]):
            if excess <= 0:
                break
            cost += problem.cost[op] * min(1.0, excess / nbytes)
            excess -= nbytes
        if excess > 0:
            return None
        most = max(most, cost)
    return problem.base_cost + problem.whole_cost(most)
