"""The mixed-integer program with a third choice: values on the host (docs/optimum.md).

Stage t is in two parts: what comes before the first run of op t, and that run. Parts of copies are in ns of the copy
alone; a copy may be spread over its engine's time.

    stall[t]      how long ops wait for copies in stage t
    fetch[t, v]   value v begins to come back from the host in stage t, before op t runs
    sent[t, v]    part of v that is on the host when stage t starts; [n_ops + t, v]: when op t runs
    whole[t, v]   all of v is on the host when stage t starts
    due[t, v]     part of v that its fetch has still to bring when stage t starts; [n_ops + t, v]: when op t runs

Stalls are added to the cost, and in rows 1 to 5 a value can come back by its fetch as by its producer. And

6. in either part of a stage, the copies of one direction take no more ns than the part lasts (recomputation and stall;
   the cost of op t), and those of both no more than 1 + shared rate / rate times that;
7. v is sent only while it is resident, and what has been sent is of use only if v stays or is whole;
8. fetch[t, v] <= sent: a copy back begins when the copy out has ended; until it has ended itself, v is resident, and
   no op uses it;
9. what is on the host fits into its memory.

Every replay is a point: of a copy that crosses the end of a part, each part has its share. Not in the program are the
order of copies on an engine, that they are not interrupted, and which of two that share the host is slowed down. With
fractions the bound is weak, so for each op at which more is live than fits the rows of the cut are there, too
(moment.py). The solver is asked for a point cheaper than the cheapest replay known; if there is none, that replay is
optimal.
"""

import itertools
from collections.abc import Iterable, Iterator

from coopsim.study.optimum.model import INFINITY, ModelOfMoments, Term
from coopsim.study.optimum.moment import Cut, embed
from coopsim.study.optimum.problem import CopyBounds, Problem


class ModelWithCopies(ModelOfMoments):
    """As Model; a value that may be offloaded can also come back from the host."""

    def __init__(self, problem: Problem, budget: int) -> None:
        assert problem.copies is not None
        self.copies: CopyBounds = problem.copies
        self.stall: list[int] = []
        self.fetch: dict[tuple[int, int], int] = {}
        self.whole: dict[tuple[int, int], int] = {}
        self.sent: dict[tuple[int, int], int] = {}
        self.due: dict[tuple[int, int], int] = {}
        super().__init__(problem, budget)
        self.rows.whole = False
        for t in range(problem.n_ops):
            self._engines(t)
            for v in self._copied(t):
                self._order(t, v)
            self._host(t)

    def _copied(self, t: int) -> list[int]:
        """The values that may be copied in stage t."""
        return [v for v in self.candidates[t] if v in self.copies.ns]

    def _more_columns(self) -> None:
        p, rows = self.problem, self.rows
        self.stall = [rows.column(1.0 / p.cost_unit, integer=False, upper=INFINITY) for _ in range(p.n_ops)]
        for t in range(p.n_ops):
            for v in self._copied(t):
                self.fetch[t, v] = rows.column()
                self.whole[t, v] = rows.column()
                for at in (t, p.n_ops + t):
                    new = at == p.producer[v] + 1
                    self.sent[at, v] = rows.column(integer=False, upper=0.0 if new else 1.0)
                    here = new or (at == p.n_ops + t and v in p.ins[t])
                    self.due[at, v] = rows.column(integer=False, upper=0.0 if here else 1.0)

    def _back(self, t: int, v: int) -> list[Term]:
        column = self.fetch.get((t, v))
        return super()._back(t, v) + ([] if column is None else [(column, -1.0)])

    def _elsewhere(self, t: int, w: int) -> list[int]:
        column = self.fetch.get((t, w))
        return super()._elsewhere(t, w) + ([] if column is None else [column])

    def delays(self, stages: Iterable[int]) -> Iterator[Term]:
        stages = list(stages)
        return itertools.chain(super().delays(stages), ((self.stall[t], 1.0) for t in stages))

    def _engines(self, t: int) -> None:
        """In either part of the stage no engine does more than there is time for, nor do both together."""
        p, n = self.problem, self.problem.n_ops
        waits = [(c, -x) for c, x in self.delays([t])]
        parts: tuple[tuple[float, list[Term]], ...] = ((0.0, waits), (float(p.cost[t]), []))
        for k, (time, more) in enumerate(parts):
            out: list[Term] = []
            back: list[Term] = []
            for v in self._copied(t):
                begin, end = ((t, v), (n + t, v)) if k == 0 else ((n + t, v), (t + 1, v))
                if end in self.sent:
                    ns = float(self.copies.ns[v])
                    resident = self._resident(t, v, late=k == 1)
                    out += [(c, ns * x) for c, x in self._moved(self.sent[begin], self.sent[end], resident)]
                    brought = [(self.due[begin], 1.0), (self.due[end], -1.0)]
                    brought += [(self.fetch[t, v], 1.0)] if k == 0 else []
                    self.rows.at_most(0, *((c, -x) for c, x in brought))
                    back += [(c, ns * x) for c, x in brought]
            both = float(self.copies.both)
            self._within(time, out, more)
            self._within(time, back, more)
            self._within(both * time, out + back, [(c, both * x) for c, x in more])

    def _within(self, time: float, work: list[Term], more: list[Term]) -> None:
        """A row of ns, as thousandths of the whole cost: the solver's tolerances are absolute."""
        if work:
            scale = 1000 / (self.problem.base_cost or 1)
            self.rows.at_most(time * scale, *((c, x * scale) for c, x in [*work, *more]))

    def _resident(self, t: int, v: int, *, late: bool) -> list[Term] | None:
        """What says that v is there to be copied, as terms to subtract; None: it is. late: while op t runs."""
        if late:
            return None if v in self.problem.ins[t] else [(self.keep[t + 1, v], -1.0)]
        return [(self.keep[t, v], -1.0), *self._back(t, v)]

    def _moved(self, begin: int, end: int, resident: list[Term] | None) -> list[Term]:
        """The part of a value that goes to the host between two moments; what is there may be discarded."""
        column = self.rows.column(integer=False)
        self.rows.at_most(0, (end, 1.0), (begin, -1.0), (column, -1.0))
        if resident is not None:
            self.rows.at_most(0, (column, 1.0), *resident)
        return [(column, 1.0)]

    def _order(self, t: int, v: int) -> None:
        """A copy back comes after the whole copy out, holds its bytes, and ends before an op uses the value.

        A copy out that has begun is of use only as long as the value stays, or if it is whole when the value leaves.
        """
        p, n, rows = self.problem, self.problem.n_ops, self.rows
        rows.at_most(0, (self.sent[t, v], 1.0), (self.keep[t, v], -1.0), (self.whole[t, v], -1.0))
        rows.at_most(0, (self.whole[t, v], 1.0), (self.sent[t, v], -1.0))
        rows.at_most(0, (self.fetch[t, v], 1.0), (self.sent[n + t, v], -1.0))
        rows.at_most(0, (self.due[t, v], 1.0), (self.keep[t, v], -1.0))
        if v not in p.ins[t]:
            if (t + 1, v) in self.keep:
                rows.at_most(0, (self.due[n + t, v], 1.0), (self.keep[t + 1, v], -1.0))
            for i in self.users[v]:
                if (t, i) in self.again:
                    rows.at_most(1, (self.due[n + t, v], 1.0), (self.again[t, i], 1.0))

    def _host(self, t: int) -> None:
        """What is on the host when op t runs has room there."""
        limit, values = self.copies.host_memory, self._copied(t)
        if limit is not None and values:
            scale = 1000 / (limit or 1)
            sent = ((self.sent[self.problem.n_ops + t, v], self.problem.size[v] * scale) for v in values)
            self.rows.at_most(limit * scale, *sent)

    def cheaper_than(self, cost: int) -> None:
        """Of interest are only points that cost less, in ns, than a schedule that is known."""
        terms = [(column, x) for column, x in enumerate(self.rows.cost) if x]
        self.rows.at_most((cost - 1 - self.problem.base_cost) / self.problem.cost_unit, *terms)


def model_of(problem: Problem, budget: int) -> ModelWithCopies:
    """The program, with those of all moments at which the bytes exceed the budget (moment.py)."""
    model = ModelWithCopies(problem, budget)
    for op, nbytes in enumerate(problem.live):
        if nbytes > budget:
            embed(model, Cut(problem, budget, op, problem.n_ops - 1))
    return model


def columns(problem: Problem) -> int:
    """How many columns the program of all stages has, about."""
    values = sum(last - problem.producer[v] for v, last in problem.last_need.items())
    again = problem.n_ops * (problem.n_ops + 1) // 2
    return again + values + sum(_MORE * (problem.last_need[v] - problem.producer[v]) for v in problem.offloadable)


_MORE = 8  # columns of a stage and of a value that may be offloaded
