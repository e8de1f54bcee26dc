"""The best that any policy could do: the least cost of a training step in so many bytes (docs/optimum.md)."""

from coopsim.study.optimum.gap import Gap, gap_in, options_for, problem_for
from coopsim.study.optimum.order import needs
from coopsim.study.optimum.problem import Problem, problem_of
from coopsim.study.optimum.solve import Optimum, solve

__all__ = ["Gap", "Optimum", "Problem", "gap_in", "needs", "options_for", "problem_for", "problem_of", "solve"]
