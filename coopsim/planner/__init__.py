"""Offline planning: offsets for items whose sizes and lifetimes are known, in as little memory as can be found.

An *item* is a size and a half-open lifetime; a *plan* gives each an offset so that no two that are alive together
overlap. Its *height* is the largest offset + size. No plan is lower than the most bytes alive at once: the lower bound.
"""

from coopsim.planner.items import Items, PlanError, lower_bound
from coopsim.planner.strategy import DEFAULT_WORK, Plan, plan

__all__ = ["DEFAULT_WORK", "Items", "Plan", "PlanError", "lower_bound", "plan"]
