"""Static DTR: knows the program, and divides by the distance to the next use instead of the time since the last.

MegEngine's seq_dtr.cpp: (cost to bring it back x evicted descendants) x memory for that / (bytes x ops to the next
use), all path-counted. A value that no later op of the program reads goes first. MegEngine leaves values below 1 MiB
alone; here they take part.
"""

from coopsim.base.types import Cost, Dead, Divisor, Recency
from coopsim.simulate.policies import Policy

POLICY = Policy(
    name="static-dtr",
    summary="least projected cost x memory / (bytes x ops until the next use)",
    source="MegEngine, seq_dtr.cpp",
    cost=Cost.PROJECTED,
    divisor=Divisor.BYTES,
    recency=Recency.NEXT_USE,
    dead=Dead.KEEP,
)
