"""The state of a simulated caching allocator: a few two-dimensional arrays whose columns have names, as in replay.

Kernels own no arrays and cannot make them larger. Before every request they check that there is room for the most that
one request may need; when there is not, they stop there, `grow` makes a larger state and they go on.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coopsim.simulate.kernel.jit import inlined
from coopsim.simulate.kernel.reference import Bundle

Array = NDArray[np.int64]

NONE = -1
UNLIMITED = 1 << 62

# B: a row per block. The first four columns are the key by which free blocks are sorted; ORDER is what the version puts
# between size and address. PREV and NEXT are the neighbours in the segment. SPACE: first address of the reserved
# address space, -1 in memory of cudaMalloc. PENDING: events that must complete. USES: head of the list of recorded
# streams. SLOT: unused row numbers; an unused row has SIZE 0.
STREAM, SIZE, ORDER, ADDRESS, PREV, NEXT, POOL, ALLOCATED = range(8)
MAPPED, SPACE, PENDING, USES, REQUESTED, AGE, SLOT = range(8, 15)
B_COLUMNS = 15

# A pool is two, of large blocks and of small ones. Its sorted sets of block numbers: free blocks of each, then address
# space without memory of each. The four sets of private pool n, from 1, are those from PRIVATE + 4 n on.
LARGE, SMALL = range(2)
UNMAPPED = 2  # added to a pool
SCRATCH = 4
SETS = 5
PRIVATE = 4
PER_POOL = 4

# G: a row per private pool. USERS: how often it was begun and not released. BEGUN: 0, or the how manieth of all
# beginnings it was. ON: the stream whose requests it serves, NONE: all. HOLDS: no event may be queried meanwhile.
# FREEABLE: all have released it, so that its memory can go back to the device. MALLOCS: requests of the pool that the
# device served, less what went back, as PyTorch counts them; a freeable pool without any is gone.
G_USERS, G_BEGUN, G_ON, G_HOLDS, G_FREEABLE, G_MALLOCS = range(6)
G_COLUMNS = 6

# D: a row per range of cudaMalloc'd memory, by address. CHUNK, CHUNK_BYTES, MADE: of a driver that carves ranges out of
# larger ones, where that one begins, how large it is, and the how manieth it was. places: where a real device put such
# ranges (address and bytes), in the order in which it was asked for them; none if that is not known.
D_ADDRESS, D_BYTES, D_CHUNK, D_CHUNK_BYTES, D_MADE = range(5)
D_COLUMNS = 5

# Where the device puts ranges (device.py).
FIRST_FIT, CUDA = range(2)

# L: a row per link of a list: a recorded stream of a block (BLOCK is NONE if it was recorded in a capture), an event
# (when it completes, and the block it guards), or a block that waits for the end of the captures.
L_KEY, L_BLOCK, L_NEXT = range(3)

# T: hash tables, a row per slot: stream, its queue of events, how far from its own slot (-1: empty).
T_STREAM, T_HEAD, T_TAIL, T_DISTANCE = range(4)
QUEUES, RECORDED, SPARE = range(3)

# How the version orders free blocks of equal size.
BY_ADDRESS, BY_BLOCK, BY_SEGMENT = range(3)

# K: settings, counters and registers. A statistic is two: current and peak.
(
    K_TOTAL,
    K_LIMIT,
    K_GARBAGE,
    K_MAX_SPLIT,
    K_MAX_ROUNDING,
    K_LARGE_SEGMENT,
    K_EXPANDABLE,
    K_RESERVE,
    K_EARLY_LIMIT,
    K_TIES,
    K_WASTES_SPACE,
    K_DIVISIONS,
) = range(12)
(
    K_LATEST_FIRST,  # of the pools that are begun, the latest serves
    K_POOLS_HOLD,  # a pool that is begun holds events like a capture
    K_POOLS_EMPTY,  # memory can be given back while a pool is begun
    K_BEGUN,
    K_HOLDING,
    K_BEGINNINGS,
    K_TOP,
    K_LINK,
    K_LINKS_LEFT,
    K_MALLOCS,
    K_DEVICE_USED,
    K_SPACE_TOP,
    K_REGISTERED,
    K_HIGHEST,  # row number of all blocks so far, and 1
    K_CLOCK,
    K_DELAY,
    K_MOST_USES,
    K_TABLES,  # of each table: slots, entries
    K_RETRIES,
    K_OOMS,
    K_DEVICE_ALLOCS,
    K_DEVICE_FREES,
    K_ALLOCATED,
    K_RESERVED,
    K_ACTIVE,
    K_INACTIVE_SPLIT,
    K_REQUESTED,
    K_SEGMENTS,
    K_DEFERRED,  # blocks that wait for the end of the captures: first and last link, and how many streams they wait for
    K_DEFERRED_USES,
    K_PLACE,  # row of `places` that is next
    K_DRIVER,
    K_CHUNKS,  # of the driver, so far
    K_COUNT,  # of each set, and how often it was searched, in turn
    K_CALLS,
) = (*range(28, 46), *range(51, 56), *range(57, 69, 2), *range(69, 75))
K_SIZE = K_COUNT + 2 * SETS


class Caching(Bundle):
    """Settings, blocks, device and counters of one simulated caching allocator. Arrays are described above."""

    WIDE: ClassVar = ("sets",)

    K: Array
    B: Array
    sets: Array
    D: Array
    L: Array
    T: Array
    G: Array
    places: Array


def new_state(blocks: int = 64, links: int = 16, slots: int = 64) -> Caching:
    """No memory taken, no settings made."""
    K = np.zeros(K_SIZE, np.int64)
    K[K_LINK] = K[K_DEFERRED] = NONE
    empty = Caching(
        K,
        np.zeros((0, B_COLUMNS), np.int64),
        np.zeros((SETS, 0), np.int64),
        np.zeros((0, D_COLUMNS), np.int64),
        np.zeros((0, 3), np.int64),
        np.zeros((3, 0, 4), np.int64),
        np.zeros((0, G_COLUMNS), np.int64),
        np.zeros((0, 2), np.int64),
    )
    return grow(empty, blocks, links, slots)


def grow(A: Caching, blocks: int = 0, links: int = 0, slots: int = 0) -> Caching:
    """The same state with at least that room; the registers stay the same array."""
    B, sets, D, L, T = A.B, A.sets, A.D, A.L, A.T
    if (more := blocks - len(B)) > 0:
        # Rows that were handed back wait on the stack of unused rows; the new ones go beneath them.
        waiting = B[: A.K[K_TOP], SLOT].copy()
        first = len(B)
        B = np.vstack([B, np.zeros((more, B_COLUMNS), np.int64)])
        B[:more, SLOT] = np.arange(blocks - 1, first - 1, -1)
        B[more : more + len(waiting), SLOT] = waiting
        A.K[K_TOP] += more
        sets = np.hstack([sets, np.zeros((len(sets), more), np.int64)])
        D = np.vstack([D, np.zeros((more, D_COLUMNS), np.int64)])
    if (more := links - len(L)) > 0:
        new = np.zeros((more, 3), np.int64)
        new[:, L_NEXT] = np.arange(len(L) + 1, links + 1)
        new[-1, L_NEXT] = A.K[K_LINK]
        A.K[K_LINK] = len(L)
        A.K[K_LINKS_LEFT] += more
        L = np.vstack([L, new])
    if (more := slots - T.shape[1]) > 0:
        new = np.zeros((3, more, 4), np.int64)
        new[:, :, T_DISTANCE] = -1
        T = np.concatenate([T, new], axis=1)
    return Caching(A.K, B, sets, D, L, T, A.G, A.places)


def with_pools(A: Caching, most: int) -> Caching:
    """The same state with private pools 1 to `most`; the registers are another array."""
    more = most + 1 - len(A.G)
    if most == 0 or more <= 0:
        return A
    n = PRIVATE + PER_POOL * (most + 1)
    K = np.concatenate([A.K, np.zeros(K_COUNT + 2 * n - len(A.K), np.int64)])
    sets = np.vstack([A.sets, np.zeros((n - len(A.sets), A.sets.shape[1]), np.int64)])
    G = np.vstack([A.G, np.zeros((more, G_COLUMNS), np.int64)])
    return Caching(K, A.B, sets, A.D, A.L, A.T, G, A.places)


def with_places(A: Caching, places: Array) -> Caching:
    """The same state, whose device puts ranges at these addresses: rows of address and bytes, in order."""
    return Caching(A.K, A.B, A.sets, A.D, A.L, A.T, A.G, np.ascontiguousarray(places, np.int64).reshape(-1, 2))


@inlined
def count_of_pool(A: Caching, pool: int, change: int) -> None:
    """The device served a request of that pool, or got memory of it back: private pools count that."""
    if pool >= PRIVATE:
        A.G[(pool - PRIVATE) // PER_POOL, G_MALLOCS] += change


@inlined
def count(A: Caching, statistic: int, change: int) -> None:
    """A statistic changes; its peak follows."""
    A.K[statistic] += change
    A.K[statistic + 1] = max(A.K[statistic + 1], A.K[statistic])
