"""Replay: the compiled core. Read loop.py first, then run_op.py, evict.py, search.py, score.py; docs/replay.md is the specification."""

from coopsim.replay.api import measure, replay

__all__ = ["measure", "replay"]
