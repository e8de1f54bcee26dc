"""Programs of one moment as rows of the program of all stages, whose bound with fractions they raise.

In fractions, half a recomputation in each of several stages uses half of each input. At one moment a recomputation is
one, whenever it is.
"""

from coopsim.optimum.model import Model
from coopsim.optimum.moment import Cut


def embed(model: Model, cut: Cut) -> None:
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
