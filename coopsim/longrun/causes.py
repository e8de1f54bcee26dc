"""Why memory runs out late: what the script keeps, a longer input, or memory in pieces. Each is a difference of plays.

What a usual step takes alone, from an empty cache, is the base. The longest one alone takes more: that is the input's
part. What is kept is what has been added to the least that is allocated at the ends of steps. What the allocator has
reserved beyond all three is memory that it holds in pieces that no request fitted.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from coopsim.longrun.play import ALLOCATED, PEAK_RESERVED
from coopsim.longrun.recorded import Ints
from coopsim.longrun.run import Run, longest, usual

Cause: TypeAlias = Literal["leak", "longer input", "fragmentation"]
_WINDOWS = 20


@dataclass(frozen=True)
class Parts:
    """The reserved bytes at step `step`: the base's, and those by each cause. They add up, unless `rest` is below 0."""

    step: int
    reserved_bytes: int
    base_bytes: int
    longer_input_bytes: int
    kept_bytes: int
    fragmentation_bytes: int

    @property
    def cause(self) -> Cause:
        """The largest part, the base left out."""
        parts: list[tuple[int, Cause]] = [
            (self.kept_bytes, "leak"),
            (self.longer_input_bytes, "longer input"),
            (self.fragmentation_bytes, "fragmentation"),
        ]
        return max(parts, key=lambda part: part[0])[1]


def parts(run: Run, step: int | None = None) -> Parts:
    """The parts at a step, numbered from 1 (None: where most is reserved), of a run on an endless device."""
    played = run.endless.bytes
    step = int(np.argmax(played[:, PEAK_RESERVED])) + 1 if step is None else step
    reserved = int(played[:step, PEAK_RESERVED].max())
    base = int(run.alone(usual(run)).bytes[:, PEAK_RESERVED].max())
    most = int(run.alone(longest(run)).bytes[:, PEAK_RESERVED].max())
    kept = kept_bytes(played[:, ALLOCATED], step)
    longer = max(min(most, reserved) - base, 0)
    return Parts(step, reserved, min(base, reserved), longer, kept, max(reserved - base - longer - kept, 0))


def kept_bytes(ends: Ints, step: int) -> int:
    """What is allocated at the end of that step because earlier ones keep it: the growth of the least in windows.

    0 unless the least grows from nearly every window of steps to the next.
    """
    size = max(len(ends) // _WINDOWS, 1)
    least = np.array([ends[i : i + size].min() for i in range(0, len(ends) - size + 1, size)][1:])
    if len(least) < 3 or (np.diff(least) > 0).mean() < 0.8 or least[-1] <= least[0]:
        return 0
    slope = (least[-1] - least[0]) / ((len(least) - 1) * size)
    return int(slope * step)
