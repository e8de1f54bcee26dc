"""Copies around the moment of a cut: what is on the host then took its engine's time before, and takes the other's
after.

    before    how much later than without waiting and recomputation the moment comes, in ns
    after     the same of the end of the span

A value that is not resident at the moment has left, so its copy to the host has ended. It began when the value had
been made. The copy back begins after the moment, as it holds its bytes, and ends before the value is used.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from coopsim.study.optimum.model import Rows, Term, power_of_two
from coopsim.study.optimum.problem import CopyBounds, Problem


@dataclass(frozen=True)
class Span:
    """The program of a cut so far: from the first run of op `moment` to that of op `until`.

    first: no other moment comes before. scale: what a ns is in the program. again, away: its columns, by op and value.
    """

    problem: Problem
    rows: Rows
    moment: int
    until: int
    first: bool
    scale: float
    again: Mapping[int, int]
    away: Mapping[int, int]


@dataclass(frozen=True)
class Delays:
    """The columns of both delays; None where one is not in the program."""

    before: int | None = None
    after: int | None = None


def copy_around(cut: Span, copies: CopyBounds) -> Delays:
    """Add the rows of both engines and of the host's memory. Recomputation then counts as part of `after`."""
    p, rows, scale = cut.problem, cut.rows, cut.scale
    begins = [0, *itertools.accumulate(p.cost)]  # of each op, if nothing delays it
    longest = sum(copies.ns[v] for v in cut.away)  # if all copies of one direction are waited for
    total = scale * (longest + sum(p.cost[op] for op in cut.again))  # a cheapest solution has no longer delay
    after = rows.column(1.0, upper=total)
    again = [(column, p.cost[op] * scale) for op, column in cut.again.items()]
    for column in cut.again.values():
        rows.cost[column] = 0.0
    rows.at_most(0, (after, -1.0), *again)

    by_maker: dict[int, list[int]] = {}
    by_use: dict[int, list[int]] = {}
    uses = _first_uses(cut)
    for v in cut.away:
        by_maker.setdefault(p.producer[v], []).append(v)
        by_use.setdefault(uses.get(v, cut.until), []).append(v)
    before = None
    if cut.first:
        before = rows.column(1.0, upper=total)
        free = {op: begins[cut.moment] - begins[op + 1] for op in by_maker}
        _engine(cut, copies, before, [(free[op], by_maker[op]) for op in sorted(by_maker, reverse=True)])
    free = {op: begins[op] - begins[cut.moment + 1] for op in by_use}
    _engine(cut, copies, after, [(free[op], by_use[op]) for op in sorted(by_use)])
    if copies.host_memory is not None:
        part = power_of_two(1000 / (copies.host_memory or 1))
        rows.at_most(copies.host_memory * part, *((c, p.size[v] * part) for v, c in cut.away.items()))
    return Delays(before, after)


def _first_uses(cut: Span) -> dict[int, int]:
    """The first op of the span, after the moment, that has each value as input."""
    found: dict[int, int] = {}
    for op in range(cut.moment + 1, cut.until + 1):
        for v in cut.problem.ins[op]:
            found.setdefault(v, op)
    return found


def _engine(cut: Span, copies: CopyBounds, delay: int, groups: list[tuple[int, list[int]]]) -> None:
    """The copies of the first groups take no more than the time that there is for them, and the delay.

    groups: the ns that the copies of each and of those before it have if nothing delays ops, and their values.
    """
    rows, busy, longest = cut.rows, None, 0.0
    for free, values in groups:
        terms = [(cut.away[v], copies.ns[v] * cut.scale) for v in values]
        longest += sum(ns for _, ns in terms)
        earlier: list[Term] = [] if busy is None else [(busy, 1.0)]
        busy = rows.column(upper=longest)
        rows.at_most(0, (busy, -1.0), *earlier, *terms)
        rows.at_most(free * cut.scale, (busy, 1.0), (delay, -1.0))
