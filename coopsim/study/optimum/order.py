"""Schedules as sequences of op runs: what a sequence needs in memory, and finding one for a choice of recomputations.

For a given sequence nothing is left to decide: a value is best kept exactly from when it is made until its last use
before it is made again, and non-evictable values as long as they must be. `needs` counts the bytes that way, so a
sequence can be run within a budget if and only if `needs` stays within it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from coopsim.study.optimum.problem import Problem

Stages = list[frozenset[int]]

_MOST_TRIES = 1_000  # partial orders of one stage


@dataclass(frozen=True)
class Needs:
    """What a sequence of runs needs at least."""

    bytes: list[int]  # while each run is under way
    starts: list[frozenset[int]]  # what is resident when each stage starts
    reruns: Stages  # the ops run again in each stage

    @property
    def peak(self) -> int:
        return max(self.bytes, default=0)


def stages_of(problem: Problem, runs: Sequence[int]) -> list[int]:
    """The stage of each run. ValueError if the ops do not run for the first time in program order, all of them."""
    stages, done = [], 0
    for op in runs:
        if op > done or done == problem.n_ops:
            raise ValueError(f"op {op} does not run in program order")
        stages.append(done)
        done += op == done
    if done < problem.n_ops:
        raise ValueError(f"op {done} never runs")
    return stages


def needs(problem: Problem, runs: Sequence[int]) -> Needs:
    """The least memory for a sequence of runs. ValueError if an input is missing or the program's order is not kept."""
    stages = stages_of(problem, runs)
    nbytes: list[int] = []
    starts: list[frozenset[int]] = [frozenset()] * problem.n_ops
    reruns: list[set[int]] = [set() for _ in range(problem.n_ops)]
    live: frozenset[int] = frozenset()
    for op, stage in zip(reversed(runs), reversed(stages), strict=True):
        if op < stage:
            reruns[stage].add(op)
        live, during = before(problem, op, stage, live)
        nbytes.append(during)
        starts[stage] = live
    if missing := live - problem.initial:
        raise ValueError(f"value {min(missing)} is used before it is made")
    return Needs(nbytes[::-1], starts, [frozenset(ops) for ops in reruns])


def before(problem: Problem, op: int, stage: int, after: frozenset[int]) -> tuple[frozenset[int], int]:
    """What must be resident before a run for `after` to be so after it, and the bytes in use while it runs."""
    held = problem.forced[stage]
    after = after | problem.forced[stage + (op == stage)]
    during = after | held | frozenset(problem.ins[op]) | frozenset(problem.outs[op])
    nbytes = problem.bytes_of(during) + problem.inside[op] - problem.taken_over(op, stage, after)
    return (after - frozenset(problem.outs[op])) | frozenset(problem.ins[op]) | held, nbytes


def arrange(problem: Problem, budget: int, reruns: Stages, starts: Stages) -> tuple[list[int], list[int]]:
    """An order for the recomputations of each stage that stays within the budget: all runs, and the stages that failed.

    `starts`: what is resident at the start of each stage at most.
    """
    runs: list[int] = []
    failed: list[int] = []
    live: frozenset[int] = frozenset()
    for stage in reversed(range(problem.n_ops)):
        live, during = before(problem, stage, stage, live)
        found = _arrange(problem, budget, stage, reruns[stage], live, starts[stage]) if during <= budget else None
        if found is None:
            failed.append(stage)
            found = sorted(reruns[stage])
        for op in reversed(found):
            live, _ = before(problem, op, stage, live)
        live &= starts[stage] | problem.forced[stage]
        runs += [stage, *reversed(found)]
    return runs[::-1], failed


def _arrange(
    problem: Problem, budget: int, stage: int, ops: frozenset[int], after: frozenset[int], start: frozenset[int]
) -> list[int] | None:
    """An order of `ops` from which `after` is resident, starting from `start`; from the back, latest ops first."""
    start = start | problem.forced[stage]
    seen: set[tuple[frozenset[int], frozenset[int]]] = set()
    trail: list[int] = []

    def place(left: frozenset[int], live: frozenset[int]) -> bool:
        if not left:
            return live <= start
        if (left, live) in seen or len(seen) > _MOST_TRIES:
            return False
        seen.add((left, live))
        for op in sorted(left, reverse=True):
            earlier, during = before(problem, op, stage, live)
            if during <= budget:
                trail.append(op)
                if place(left - {op}, earlier):
                    return True
                trail.pop()
        return False

    return trail[::-1] if place(ops, after) else None
