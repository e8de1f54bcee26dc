"""Why memory runs out late: what the script keeps, a longer input, or fragmentation. Each is a difference of plays.

What a usual step takes alone, from an empty cache, is the base. The longest one alone takes more: that is the input's
part. What is kept is what has been added to the least that is allocated at the ends of steps. What the allocator has
reserved beyond all three is free memory in blocks that fitted no request.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from coopsim.run.longrun.lengths import Length
from coopsim.run.longrun.play import ALLOCATED, PEAK_RESERVED
from coopsim.run.longrun.recorded import Ints
from coopsim.run.longrun.run import LongRun, longest, usual
from coopsim.run.longrun.schedule import FIRST

Cause: TypeAlias = Literal["leak", "longer input", "fragmentation"]
_WINDOWS = 20


@dataclass(frozen=True)
class PeakParts:
    """The bytes reserved at their most up to step `step`: the base's, and those by each cause, which add up."""

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


def parts(run: LongRun, step: int | None = None) -> PeakParts:
    """The parts at a step, numbered from 1 (None: where most is reserved), of a run on an endless device."""
    played = run.endless.bytes
    step = int(np.argmax(played[:, PEAK_RESERVED])) + 1 if step is None else step
    reserved = int(played[:step, PEAK_RESERVED].max())
    rate = kept_per_step(played[:, ALLOCATED])
    base, most = (_alone(run, length, rate) for length in (usual(run), longest(run)))
    base = min(base, reserved)
    longer = max(min(most, reserved) - base, 0)
    kept = min(int(rate * step), reserved - base - longer)
    return PeakParts(step, reserved, base, longer, kept, reserved - base - longer - kept)


def _alone(run: LongRun, length: Length, rate: float) -> int:
    """The bytes reserved for steps of one length alone, less what these steps themselves keep."""
    found = run.alone(length).bytes
    return int(found[:, PEAK_RESERVED].max()) - int(rate * (FIRST + len(found)))


def kept_per_step(ends: Ints) -> float:
    """The bytes that a step leaves allocated for good, given what is allocated at the ends of steps.

    It is the growth of the least in windows of steps; 0 unless that grows from nearly every window to the next.
    """
    size = max(len(ends) // _WINDOWS, 1)
    least = np.array([ends[i : i + size].min() for i in range(0, len(ends) - size + 1, size)][1:])
    if len(least) < 3 or (np.diff(least) > 0).mean() < 0.8 or least[-1] <= least[0]:
        return 0.0
    return float(least[-1] - least[0]) / ((len(least) - 1) * size)
