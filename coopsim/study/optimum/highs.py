"""HiGHS, the solver: the only module that knows it."""

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coopsim.base.types import CoopsimError
from coopsim.study.optimum.model import Rows


@dataclass(frozen=True)
class SolverAnswer:
    """What the solver found: a point or none, and a bound below every point."""

    infeasible: bool
    finished: bool
    point: list[float] | None
    bound: float
    prices: list[float] = field(default_factory=list)  # of the rows, of a relaxed program that was solved


def solver() -> Any:
    """The solver's module. CoopsimError, with the command that installs it, if it is not there."""
    try:
        import highspy
    except ImportError:
        raise CoopsimError("an optimum needs the solver HiGHS: pip install 'coopsim[optimum]'") from None
    return highspy


def minimise(rows: Rows, seconds: float, start: list[float] | None = None, *, relaxed: bool = False) -> SolverAnswer:
    """The least cost, or what is known of it when the time is up. `relaxed`: fractions allowed."""
    highspy = solver()
    h = highspy.Highs()
    h.setOptionValue("output_flag", False)
    h.setOptionValue("threads", 1)
    h.setOptionValue("time_limit", float(max(seconds, 0.0)))
    h.setOptionValue("mip_rel_gap", 0.0)
    h.setOptionValue("mip_abs_gap", 0.999)  # costs are whole
    h.HandleUserInterrupt = True
    if h.passModel(_lp(highspy, rows, relaxed)) == highspy.HighsStatus.kError:
        raise AssertionError("the solver refuses the program")
    if start is not None and not relaxed:
        solution = highspy.HighsSolution()
        solution.col_value = start
        h.setSolution(solution)
    if not _run(h, seconds):
        return SolverAnswer(infeasible=False, finished=False, point=None, bound=0.0)
    status, info = h.getModelStatus(), h.getInfo()
    kinds = highspy.HighsModelStatus
    found = info.primal_solution_status == 2
    finished = status == kinds.kOptimal
    if relaxed:
        bound = info.objective_function_value if finished else 0.0
    else:
        bound = round(info.objective_function_value) if finished and rows.whole else info.mip_dual_bound
    return SolverAnswer(
        infeasible=status in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible),
        finished=finished,
        point=list(h.getSolution().col_value) if found else None,
        bound=bound if np.isfinite(bound) else 0.0,
        prices=list(h.getSolution().row_dual) if relaxed and finished else [],
    )


def _run(h: Any, seconds: float) -> bool:
    """Solve in a thread of its own, so that Ctrl-C is heard here. False: it did not stop in time, and is left alone."""
    done = threading.Event()  # joining a thread with a time limit and an interrupt takes it for ended

    def solve() -> None:
        h.run()
        done.set()

    threading.Thread(target=solve, daemon=True).start()
    try:
        if done.wait(seconds + 2):  # it looks at its own limit first, now and then
            return True
    finally:
        if not done.is_set():
            h.cancelSolve()
            done.wait(5)
    return done.is_set()


def _lp(highspy: Any, rows: Rows, relaxed: bool) -> Any:
    lp = highspy.HighsLp()
    n = len(rows.cost)
    lp.num_col_, lp.num_row_ = n, len(rows.upper)
    lp.col_cost_ = np.array(rows.cost, float)
    lp.col_lower_ = np.zeros(n)
    lp.col_upper_ = np.array(rows.column_upper, float)
    lp.row_lower_ = np.full(len(rows.upper), -highspy.kHighsInf)
    lp.row_upper_ = np.array(rows.upper, float)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.array(rows.start, np.int32)
    lp.a_matrix_.index_ = np.array(rows.index, np.int32)
    lp.a_matrix_.value_ = np.array(rows.value, float)
    if not relaxed:
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if i else kinds.kContinuous for i in rows.integer]
    return lp
