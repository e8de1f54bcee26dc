"""The best that any policy could do: the least cost of a training step in so many bytes (docs/optimum.md)."""

from coopsim.optimum.gap import Gap, gap, options_for, problem_for
from coopsim.optimum.order import needs
from coopsim.optimum.problem import Problem, problem_of
from coopsim.optimum.solve import Optimum, solve

__all__ = ["Gap", "Optimum", "Problem", "gap", "needs", "options_for", "problem_for", "problem_of", "solve"]
