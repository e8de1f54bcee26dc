"""Which stages of a pipeline to run: of a long one those that differ, like ones once.

Stages are counted along the pipeline. What lies between two of the same figures is taken to be like them; where the
figures of two differ, the one halfway between is run next.
"""

from collections.abc import Hashable, Mapping
from itertools import pairwise

#: A pipeline of no more is run as a whole.
FEW = 8
#: No more are run of a long one: between its ends every stage may hold another number of micro-batches.
_MOST = 16


def first(stages: int) -> list[int]:
    """Those to begin with: all of a few, else both ends, their neighbours and the middle."""
    return list(range(stages)) if stages <= FEW else sorted({0, 1, stages // 2, stages - 2, stages - 1})


def more(figures: Mapping[int, Hashable]) -> list[int]:
    """Those to run next, if these were run and had these figures: the middles of the widest gaps between others."""
    ran = sorted(figures)
    gaps = [(b - a, a) for a, b in pairwise(ran) if b - a > 1 and figures[a] != figures[b]]
    room = max(_MOST - len(ran), 0)
    return sorted(a + width // 2 for width, a in sorted(gaps, reverse=True)[:room])


def left_out(figures: Mapping[int, Hashable], stage: int) -> tuple[range, bool]:
    """Those from a stage that was run to the next such one; and whether they are taken to be like it."""
    after = min((n for n in figures if n > stage), default=stage + 1)
    return range(stage + 1, after), after in figures and figures[stage] == figures[after]
