"""The device: memory of cudaMalloc, and physical pages behind reserved address space.

Memory of cudaMalloc lies where a record says that a real driver put it (`places`), else where the driver's rule says
(driver.py). Addresses of reserved address space count from 0 of their own range.
"""

from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.driver import above, chunk_around, first_fit, in_chunk
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.trace.snapshot.chunks import CHUNK

GRANULE = 2 << 20
SPACE_GAP = 1 << 30  # reserved address spaces are whole GiB with a GiB between them


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
