"""Replay: the compiled core. docs/replay.md is the specification.

Read loop.py first, then run_op.py, evict.py, search.py, score.py; loss/ is what losing a value costs, memory.py hides
the allocators, lower.py turns a trace into arrays, foresight/ makes plans and plan.py is what a replay asks of one,
api.py is what users call.
"""

from coopsim.replay.api import measure, replay

__all__ = ["measure", "replay"]
