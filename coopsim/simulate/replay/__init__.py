"""Replay: the compiled core. docs/replay.md is the specification.

Read loop.py first, then run_op.py, evict.py, search.py, score.py; loss.py is what losing a value costs, memory.py hides
the allocators, planned_run.py runs a replay by plans, plan.py is what it asks of one, once.py runs one replay,
result.py makes a schedule of it, api.py is what users call.
"""

from coopsim.simulate.replay.api import follow, measure, record, replay, warm_up

__all__ = ["follow", "measure", "record", "replay", "warm_up"]
