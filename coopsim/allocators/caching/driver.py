"""Where the driver puts the memory that cudaMalloc asks for.

`first-fit`: the lowest addresses at which there is room, in units of 2 MiB, as the stand-in runtime of the tests does.
`cuda`: what was observed on a card (docs/allocators.md). Ranges are carved out of chunks, which are as long as the
request that made them, rounded up to 32 MiB, and aligned to that. An empty chunk goes back at once.
"""

from coopsim.allocators.caching import state as c
from coopsim.errors import unknown
from coopsim.kernel.jit import kernel

FIRST_FIT, CUDA = "first-fit", "cuda"
DRIVERS = {FIRST_FIT: c.FIRST_FIT, CUDA: c.CUDA}
CHUNK = 32 << 20
TOP = 1 << 46  #: chunks lie below this address, the first one at its end


def find_driver(name: str) -> int:
    """The code of a driver. CoopsimError, with near matches, if there is none of that name."""
    if name not in DRIVERS:
        raise unknown("driver", name, DRIVERS)
    return DRIVERS[name]


@kernel
def first_fit(A: c.Caching, nbytes: int) -> tuple[int, int]:
    """Before which row of D a range of so many bytes goes, and its address."""
    n, at, address = A.K[c.K_MALLOCS], 0, 0
    while at < n and A.D[at, c.D_ADDRESS] - address < nbytes:
        address = A.D[at, c.D_ADDRESS] + A.D[at, c.D_BYTES]
        at += 1
    return at, address


@kernel
def in_chunk(A: c.Caching, nbytes: int) -> tuple[int, int, int]:
    """The same in the newest chunk with a gap that is large enough, at the low end of its smallest such gap.

    Also a row, as it is now, of a range in that chunk. All are -1 if no chunk has such a gap.
    """
    n, row = A.K[c.K_MALLOCS], 0
    newest, found, address, of = c.NONE, c.NONE, c.NONE, c.NONE
    while row < n:
        first, made = row, A.D[row, c.D_MADE]
        position, smallest = A.D[row, c.D_CHUNK], c.UNLIMITED
        end = position + A.D[row, c.D_CHUNK_BYTES]
        inside = True
        while inside:
            inside = row < n and A.D[row, c.D_MADE] == made
            gap = (A.D[row, c.D_ADDRESS] if inside else end) - position
            if made >= newest and nbytes <= gap < smallest:
                newest, smallest, found, address, of = made, gap, row, position, first
            if inside:
                position = A.D[row, c.D_ADDRESS] + A.D[row, c.D_BYTES]
                row += 1
    return found, address, of


@kernel
def above(A: c.Caching, nbytes: int) -> tuple[int, int]:
    """Before which row of D a chunk of so many bytes goes, and its address: at the top of the highest hole.

    A hole that the chunk would fill does not do. Those that align what mmap gives them ask for more than they need.
    """
    at, high = A.K[c.K_MALLOCS], TOP
    while at > 0:
        last = at - 1
        if high - A.D[last, c.D_CHUNK] - A.D[last, c.D_CHUNK_BYTES] > nbytes:
            break
        high = A.D[last, c.D_CHUNK]
        while at > 0 and A.D[at - 1, c.D_CHUNK] == high:
            at -= 1
    return at, high - nbytes
