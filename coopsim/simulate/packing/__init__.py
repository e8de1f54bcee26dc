"""Offline planning: offsets for items whose sizes and lifetimes are known, in as little memory as can be found.

An *item* has a size in bytes and a half-open lifetime. A *plan* gives each item an offset, in bytes, so that no two
items that are alive at the same time overlap. Its *height* is the largest offset + size. The *lower bound* is the
largest number of bytes alive at once: no plan is lower.
"""

from coopsim.simulate.packing.items import Items, PlanError, lower_bound
from coopsim.simulate.packing.strategy import DEFAULT_WORK, OffsetPlan, plan

__all__ = ["DEFAULT_WORK", "Items", "OffsetPlan", "PlanError", "lower_bound", "plan"]
