"""Schedules from a cut: what it makes again is made again once, as late as possible. They may fit or not."""

from collections.abc import Callable, Iterator

from coopsim.study.optimum import highs
from coopsim.study.optimum.moment import Cut, moments
from coopsim.study.optimum.problem import Problem

_PARTS = (1.0, 0.99, 0.97)  # of the budget for the moment: memory after it is not in its program
_SHARES = (0.5, 1e-6)  # an op runs again if its share in the relaxed program is more


def schedules(problem: Problem, budget: int, seconds: Callable[[], float]) -> Iterator[list[int]]:
    """Ops in the order in which they run, for some cuts at the fullest moments. seconds: says how many are left."""
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
