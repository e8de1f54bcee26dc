"""A device's two copy engines, one per direction: when a copy begins and ends (docs/replay.md).

Plain arithmetic on integers, which kernels compile into themselves (`jit.inlined`) and everything else calls.
"""


def span(now: int, free: int, other_free: int, alone: int, rate: int, shared_rate: int) -> tuple[int, int]:
    """When a copy begins and ends that is given to an engine at `now`.

    free, other_free: when this engine, and that of the other direction, have ended all that they were given. alone: how
    long the copy takes while the other engine is idle. rate, shared_rate: of a copy alone, and beside another.
    """
    start = max(now, free)
    shared = max(0, other_free - start)
    if shared_rate > 0 and -(-alone * rate // shared_rate) <= shared:
        return start, start - -alone * rate // shared_rate
    return start, start + alone + shared - shared * shared_rate // rate
