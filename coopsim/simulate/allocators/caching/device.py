"""The device: memory of cudaMalloc, and physical pages behind reserved address space.

Memory of cudaMalloc lies where a record says that a real driver put it (`places`), else where the driver's rule says:
`first-fit`, the lowest addresses at which there is room, in units of 2 MiB, as the stand-in runtime of the tests does;
`cuda`, what was observed on a card (docs/allocators.md). There ranges are carved out of chunks, which are as long as
the request that made them, rounded up to 32 MiB, and aligned to that; an empty chunk goes back at once. Addresses of
reserved address space count from 0 of their own range.
"""

from coopsim.base.errors import unknown
from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.trace.snapshot.chunks import CHUNK

FIRST_FIT, CUDA = "first-fit", "cuda"
DRIVERS = {FIRST_FIT: c.FIRST_FIT, CUDA: c.CUDA}
TOP = 1 << 46  #: chunks lie below this address, the first one at its end
GRANULE = 2 << 20
SPACE_GAP = 1 << 30  # reserved address spaces are whole GiB with a GiB between them


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


@inlined
def round_up(n: int, unit: int) -> int:
    """The next multiple."""
    return (n + unit - 1) // unit * unit


@kernel
def _recorded(A: c.Caching, nbytes: int, taken: int) -> int:
    """Before which row of D the next recorded range goes; -1 if it has another size, or lies where another one is."""
    row = A.K[c.K_PLACE]
    address, at, n = A.places[row, c.D_ADDRESS], 0, A.K[c.K_MALLOCS]
    if A.places[row, c.D_BYTES] != nbytes:
        return c.NONE
    while at < n and A.D[at, c.D_ADDRESS] < address:
        at += 1
    if at > 0 and A.D[at - 1, c.D_ADDRESS] + A.D[at - 1, c.D_BYTES] > address:
        return c.NONE
    if at < n and A.D[at, c.D_ADDRESS] < address + taken:
        return c.NONE
    A.K[c.K_PLACE] += 1
    return at


@kernel
def cuda_malloc(A: c.Caching, nbytes: int) -> int:
    """Address of that many bytes, or -1 if the device has not enough left."""
    taken = round_up(nbytes, GRANULE)
    if A.K[c.K_DEVICE_USED] + taken > A.K[c.K_TOTAL]:
        return c.NONE
    n = A.K[c.K_MALLOCS]
    at = _recorded(A, nbytes, taken) if A.K[c.K_PLACE] < A.places.shape[0] else c.NONE
    chunk, chunk_bytes, made = 0, 0, 0
    if at >= 0:
        address = A.places[A.K[c.K_PLACE] - 1, c.D_ADDRESS]
        chunk, chunk_bytes, made = chunk_around(A, at, address, taken)
    elif A.K[c.K_DRIVER] == c.FIRST_FIT:
        at, address = first_fit(A, taken)
    else:
        at, address, of = in_chunk(A, taken)
        if at >= 0:
            chunk, chunk_bytes, made = A.D[of, c.D_CHUNK], A.D[of, c.D_CHUNK_BYTES], A.D[of, c.D_MADE]
        else:
            at, address = above(A, round_up(taken, CHUNK))
            chunk, chunk_bytes, made = chunk_around(A, at, address, taken)
    for j in range(n, at, -1):
        for k in range(c.D_COLUMNS):
            A.D[j, k] = A.D[j - 1, k]
    A.D[at, c.D_ADDRESS] = address
    A.D[at, c.D_BYTES] = taken
    A.D[at, c.D_CHUNK] = chunk
    A.D[at, c.D_CHUNK_BYTES] = chunk_bytes
    A.D[at, c.D_MADE] = made
    A.K[c.K_MALLOCS] += 1
    A.K[c.K_DEVICE_USED] += taken
    return address


@kernel
def cuda_free(A: c.Caching, address: int) -> None:
    """Give back what cuda_malloc gave."""
    low, high = 0, A.K[c.K_MALLOCS]
    while low < high:
        middle = (low + high) >> 1
        if A.D[middle, c.D_ADDRESS] < address:
            low = middle + 1
        else:
            high = middle
    A.K[c.K_DEVICE_USED] -= A.D[low, c.D_BYTES]
    A.K[c.K_MALLOCS] -= 1
    for j in range(low, A.K[c.K_MALLOCS]):
        for k in range(c.D_COLUMNS):
            A.D[j, k] = A.D[j + 1, k]


@inlined
def reserve_space(A: c.Caching, nbytes: int) -> int:
    """First address of that much address space, never handed out again."""
    address = A.K[c.K_SPACE_TOP]
    A.K[c.K_SPACE_TOP] += round_up(nbytes, SPACE_GAP) + SPACE_GAP
    return address


@inlined
def take_pages(A: c.Caching, nbytes: int) -> bool:
    """Physical memory, all of it or none."""
    if A.K[c.K_DEVICE_USED] + nbytes > A.K[c.K_TOTAL]:
        return False
    A.K[c.K_DEVICE_USED] += nbytes
    return True
