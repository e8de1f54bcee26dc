"""Where the driver puts the memory that cudaMalloc asks for.

`first-fit`: the lowest addresses at which there is room, in units of 2 MiB, as the stand-in runtime of the tests does.
`cuda`: what was observed on a card (docs/allocators.md). Ranges are carved out of chunks, which are as long as the
request that made them, rounded up to 32 MiB, and aligned to that. An empty chunk goes back at once.
"""

from coopsim.base.errors import unknown
from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.kernel.jit import kernel
from coopsim.trace.snapshot.chunks import CHUNK

FIRST_FIT, CUDA = "first-fit", "cuda"
DRIVERS = {FIRST_FIT: c.FIRST_FIT, CUDA: c.CUDA}
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
        if row > 0:  # chunks overlap where places are recorded, and what lay around them is not known
            position = max(position, A.D[row - 1, c.D_ADDRESS] + A.D[row - 1, c.D_BYTES])
        inside = True
        while inside:
            inside = row < n and A.D[row, c.D_MADE] == made
            gap = (min(A.D[row, c.D_ADDRESS], end) if row < n else end) - position
            if made >= newest and nbytes <= gap < smallest:
                newest, smallest, found, address, of = made, gap, row, position, first
            if inside:
                position = A.D[row, c.D_ADDRESS] + A.D[row, c.D_BYTES]
                row += 1
    return found, address, of


@kernel
def chunk_around(A: c.Caching, at: int, address: int, nbytes: int) -> tuple[int, int, int]:
    """The chunk of a range that goes before row `at` of D, its bytes and number: the one it lies in, or a new one."""
    for row in range(max(at - 1, 0), min(at + 1, A.K[c.K_MALLOCS])):
        chunk, chunk_bytes = A.D[row, c.D_CHUNK], A.D[row, c.D_CHUNK_BYTES]
        if chunk <= address and address + nbytes <= chunk + chunk_bytes:
            return chunk, chunk_bytes, A.D[row, c.D_MADE]
    A.K[c.K_CHUNKS] += 1
    chunk, end = address // CHUNK * CHUNK, (address + nbytes + CHUNK - 1) // CHUNK * CHUNK
    return chunk, end - chunk, A.K[c.K_CHUNKS]


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
