"""How large a block a request gets, and how large a segment is made for it."""

from coopsim.base.types import GRANULE
from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.device import round_up
from coopsim.simulate.kernel.jit import inlined, kernel

LARGEST_SMALL = 1 << 20
SMALL_SEGMENT = 2 << 20
LARGEST_PACKED = 10 << 20  # at and above, a request gets a segment of its own
SEGMENT_UNIT = 2 << 20
INTERVALS = 16  #: powers of two from 1 MiB, each with its own roundup_power2_divisions


@kernel
def round_size(A: c.Caching, nbytes: int) -> int:
    """Bytes of the block for a request."""
    if nbytes < GRANULE:
        return GRANULE
    power = 0
    while nbytes >> power > 1:
        power += 1
    divisions = A.K[c.K_DIVISIONS + min(max(power - 20, 0), INTERVALS - 1)]
    if divisions > 1 and nbytes > GRANULE * divisions:
        floor = 1 << power
        if nbytes == floor:
            return nbytes
        bits = 0
        while divisions >> bits > 1:
            bits += 1
        unit = floor >> bits
        if unit == 0:
            return floor << 1
        return round_up(nbytes, unit)
    return round_up(nbytes, GRANULE)


@inlined
def pool_of(size: int) -> int:
    """The pool that serves blocks of that size."""
    return c.SMALL if size <= LARGEST_SMALL else c.LARGE


@inlined
def segment_size(A: c.Caching, size: int) -> int:
    """Bytes to cudaMalloc for a block of that size."""
    if size <= LARGEST_SMALL:
        return SMALL_SEGMENT
    if size < LARGEST_PACKED:
        return A.K[c.K_LARGE_SEGMENT]
    return round_up(size, SEGMENT_UNIT)
