"""The slow reference: docs/replay.md in plain Python, as it is written, without a thought for speed.

Every search looks at everything, the window tries every run of blocks, recomputation recurses, relatives are walked
anew for each score. Only the tests use it; it shares no code with the compiled core.

    values   what a value and an op are, and which sets a value is in
    program  the trace in terms of values: what is non_evictable, what is freed after which op
    memory   arena and counter
    score    what losing a value costs
    search   which values go
    host     copies to the host and back (docs/replay.md)
    run      the replay
"""

from tests.reference.program import GRANULE
from tests.reference.run import replay

__all__ = ["GRANULE", "replay"]
