"""Perform requests, one after another."""

from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.events import record_stream
from coopsim.simulate.allocators.caching.malloc import begin_pool, end_pool, free, leave_pool, malloc
from coopsim.simulate.allocators.caching.release import empty_pool, release_cached
from coopsim.simulate.kernel.jit import inlined, kernel
from coopsim.trace.request_rows import (
    ALLOCATE,
    AMOUNT,
    BEGIN,
    CAPTURE,
    DELAY,
    EMPTY,
    EMPTY_POOL,
    END,
    FREE,
    KIND,
    NUMBER,
    RECORD,
    RELEASE,
    STREAM,
    TICK,
)

# What an allocation number stands for, other than a block.
GONE, NULL = -1, -2

# Why performing stopped.
DONE, STOPPED, CROWDED = range(3)


@inlined
def has_room(A: c.Caching) -> bool:
    """Whether the arrays suffice for any one request.

    Giving back pages cuts every free block into three at most, a request maps every run of address space at most, and
    both are fewer than the blocks that there are.
    """
    used = A.B.shape[0] - A.K[c.K_TOP]
    fewest = max(A.K[c.K_TABLES + 2 * c.QUEUES] + 2 * A.K[c.K_DEFERRED_USES], 2 * A.K[c.K_MOST_USES], 4)
    return A.K[c.K_TOP] >= 2 * used + 8 and A.K[c.K_LINKS_LEFT] > 0 and A.T.shape[1] >= 8 * fewest + 8


@kernel
def perform(
    A: c.Caching, requests: c.Array, start: int, held: c.Array, answers: c.Array, reserved: c.Array
) -> tuple[int, int]:
    """Perform requests from number `start`; the number of the first that is not performed, and why not.

    held: the block of each allocation number, -1: none, -2: a null pointer. answers: for every allocation its
    address, -1: out of memory.
    """
    for i in range(start, requests.shape[0]):
        if not has_room(A):
            return i, CROWDED
        kind, number = requests[i, KIND], requests[i, NUMBER]
        if kind == ALLOCATE:
            if requests[i, AMOUNT] == 0:
                held[number] = NULL
                answers[i] = 0
            else:
                b = malloc(A, requests[i, AMOUNT], requests[i, STREAM])
                held[number] = b
                answers[i] = A.B[b, c.ADDRESS] if b >= 0 else c.NONE
        elif kind == FREE:
            b = held[number]
            if b >= 0:
                free(A, b)
            held[number] = GONE
        elif kind == RECORD:
            if held[number] >= 0:
                record_stream(A, held[number], requests[i, STREAM])
        elif kind == EMPTY:
            release_cached(A)
        elif kind >= BEGIN:
            if kind == END:
                end_pool(A, number)
            elif kind == RELEASE:
                leave_pool(A, number)
            elif kind == EMPTY_POOL:
                empty_pool(A, number)
            else:
                begin_pool(A, number, requests[i, STREAM], kind == CAPTURE)
        elif kind == TICK:
            A.K[c.K_CLOCK] += requests[i, AMOUNT]
        elif kind == DELAY:
            A.K[c.K_DELAY] = requests[i, AMOUNT]
        else:
            return i, STOPPED
        if reserved.shape[0] > 0:
            reserved[i] = A.K[c.K_RESERVED]
    return requests.shape[0], DONE
