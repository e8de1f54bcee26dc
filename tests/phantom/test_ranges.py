"""Where the phantom puts device memory: segments as the simulated driver does, reservations apart from them."""

import random

import numpy as np

from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.trace.request_rows import ALLOCATE, EMPTY, FREE

MIB = 1 << 20

PROGRAM = """
import ctypes
from coopsim.cards import wheel
runtime = ctypes.CDLL(f"libcudart.so.{wheel.find().cuda.partition('.')[0]}")
driver = ctypes.CDLL("libcuda.so.1")
def malloc(nbytes):
    found = ctypes.c_uint64()
    assert runtime.cudaMalloc(ctypes.byref(found), ctypes.c_size_t(nbytes)) == 0
    return found.value
def free(address):
    return runtime.cudaFree(ctypes.c_uint64(address))
def reserve(nbytes, align=0):
    found, sizes = ctypes.c_uint64(), map(ctypes.c_uint64, (nbytes, align, 0, 0))
    assert driver.cuMemAddressReserve(ctypes.byref(found), *sizes) == 0
    return found.value
def used():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    return total.value - free.value
"""


def test_segments_lie_where_the_simulated_driver_puts_them(on_phantom) -> None:
    """Requests of more than 10 MiB that are freed to the device at once: each is one segment."""
    rng, rows, calls, live = random.Random(11), [], [], []
    for number in range(1500):
        if live and (len(live) > 60 or rng.random() < 0.45):
            freed = live.pop(rng.randrange(len(live)))
            calls.append(freed)
            rows += [(FREE, freed, 0, 0), (EMPTY, 0, 0, 0)]
        nbytes = 2 * MIB * rng.choice([6, 6, 7, 9, 12, 15, 16, 17, 23, 31, 33, 40, 64, 177])
        calls.append(-nbytes)
        rows.append((ALLOCATE, number, nbytes, 0))
        live.append(number)
    program = f"{PROGRAM}\nplaces = []\nfor call in {calls}:\n"
    program += "    if call < 0: places.append(malloc(-call))\n    else: assert free(places[call]) == 0\n"
    requests = np.array(rows, np.int64)
    answers, _ = CachingAllocator("2.11.0", total_bytes=1 << 45, driver="cuda").run(requests)
    assert on_phantom(f"{program}answer(places)", card="h100-80gb") == answers[requests[:, 0] == ALLOCATE].tolist()


def test_reservations_and_segments_keep_apart(on_phantom) -> None:
    """Among chunks only holes are left to segments; a reservation takes none of the card's memory."""
    text = """
before = used()
first, second, third = (malloc(n << 20) for n in (40, 20, 2))
low, next_to_it, aligned = reserve(3 << 20), reserve(2 << 30), reserve(2 << 20, 1 << 30)
inside, as_segment = free(first + 512), free(low)
taken = used() - before
assert driver.cuMemAddressFree(ctypes.c_uint64(first), ctypes.c_size_t(40 << 20)) != 0
again = driver.cuMemAddressFree(ctypes.c_uint64(low), ctypes.c_size_t(3 << 20)), reserve(2 << 20) == low
freed = [free(first), free(first), free(second), free(third)]
answer([first - second, third - first, next_to_it - low, aligned % (1 << 30), low < first - (1 << 40), inside,
        as_segment, taken, again, freed, used() - before, malloc(64 << 20) == first])
"""
    said = on_phantom(PROGRAM + text, card="h100-80gb")
    assert said == [-40 * MIB, 60 * MIB, 4 * MIB, 0, True, 1, 1, 62 * MIB, [0, True], [0, 1, 0, 0], 0, True]
