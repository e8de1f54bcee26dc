"""Replay: the compiled core. docs/replay.md is the specification.

Read loop.py first, then run_op.py, evict.py, search.py, score.py; memory.py hides the allocators, program.py turns a
trace into arrays, api.py is what users call.
"""

from coopsim.replay.api import measure, replay

__all__ = ["measure", "replay"]
