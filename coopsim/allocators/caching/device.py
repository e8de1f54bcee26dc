"""The device: memory of cudaMalloc, lowest address first, and physical pages behind reserved address space.

Where a real driver puts memory is unknown unless a record says so (`places`); else it is first fit in units of 2 MiB,
which is also what the stand-in runtime of the tests does. Addresses of cudaMalloc count from 0, those of reserved
address space from 0 of their own range.
"""

from coopsim.allocators.caching import state as c
from coopsim.kernel.jit import inlined, kernel

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
    if at >= 0:
        address = A.places[A.K[c.K_PLACE] - 1, c.D_ADDRESS]
    else:
        address, at = 0, 0
        while at < n and A.D[at, c.D_ADDRESS] - address < taken:
            address = A.D[at, c.D_ADDRESS] + A.D[at, c.D_BYTES]
            at += 1
    for j in range(n, at, -1):
        A.D[j, c.D_ADDRESS] = A.D[j - 1, c.D_ADDRESS]
        A.D[j, c.D_BYTES] = A.D[j - 1, c.D_BYTES]
    A.D[at, c.D_ADDRESS] = address
    A.D[at, c.D_BYTES] = taken
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
        A.D[j, c.D_ADDRESS] = A.D[j + 1, c.D_ADDRESS]
        A.D[j, c.D_BYTES] = A.D[j + 1, c.D_BYTES]


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
