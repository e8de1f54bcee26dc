"""record_stream and the events that guard a freed block until the streams that used it have gone past them."""

from coopsim.allocators.caching.free import free_block
from coopsim.allocators.caching.hashed import empty, end_of, enter, erase
from coopsim.allocators.caching.links import drop_link, new_link
from coopsim.allocators.caching.state import (
    K_CLOCK,
    K_DELAY,
    K_MOST_USES,
    K_TABLES,
    L_BLOCK,
    L_KEY,
    L_NEXT,
    NONE,
    PENDING,
    QUEUES,
    RECORDED,
    STREAM,
    T_DISTANCE,
    T_HEAD,
    T_STREAM,
    T_TAIL,
    USES,
    Caching,
)
from coopsim.kernel.jit import kernel


@kernel
def record_stream(A: Caching, b: int, stream: int) -> None:
    """That stream uses block b too. Its own stream and one recorded before change nothing."""
    if stream == A.B[b, STREAM]:
        return
    uses, last, link = 1, NONE, A.B[b, USES]
    while link >= 0:
        if A.L[link, L_KEY] == stream:
            return
        uses += 1
        last = link
        link = A.L[link, L_NEXT]
    link = new_link(A, stream, b)
    if last < 0:
        A.B[b, USES] = link
    else:
        A.L[last, L_NEXT] = link
    A.K[K_MOST_USES] = max(A.K[K_MOST_USES], uses)


@kernel
def record_events(A: Caching, b: int) -> None:
    """Block b is freed, but other streams use it: an event on each, and b is free when all have completed."""
    empty(A, RECORDED, 0)
    link = A.B[b, USES]
    while link >= 0:
        enter(A, RECORDED, A.L[link, L_KEY])
        link = drop_link(A, link)
    A.B[b, USES] = NONE
    for i in range(end_of(A, RECORDED)):
        if A.T[RECORDED, i, T_DISTANCE] == NONE:
            continue
        queue = enter(A, QUEUES, A.T[RECORDED, i, T_STREAM])
        event = new_link(A, A.K[K_CLOCK] + A.K[K_DELAY], b)
        if A.T[QUEUES, queue, T_HEAD] < 0:
            A.T[QUEUES, queue, T_HEAD] = event
        else:
            A.L[A.T[QUEUES, queue, T_TAIL], L_NEXT] = event
        A.T[QUEUES, queue, T_TAIL] = event
        A.B[b, PENDING] += 1


@kernel
def process_events(A: Caching, wait: bool) -> None:
    """Free the blocks whose events have completed; `wait`: let the clock run until all have."""
    if A.K[K_TABLES + 2 * QUEUES + 1] == 0:
        return
    i, end = 0, end_of(A, QUEUES)
    while i < end:
        if A.T[QUEUES, i, T_DISTANCE] == NONE:
            i += 1
            continue
        event = A.T[QUEUES, i, T_HEAD]
        while event >= 0 and (wait or A.L[event, L_KEY] <= A.K[K_CLOCK]):
            A.K[K_CLOCK] = max(A.K[K_CLOCK], A.L[event, L_KEY])
            b = A.L[event, L_BLOCK]
            event = drop_link(A, event)
            A.B[b, PENDING] -= 1
            if A.B[b, PENDING] == 0:
                free_block(A, b)
        A.T[QUEUES, i, T_HEAD] = event
        if event < 0:
            erase(A, QUEUES, i)  # another queue may have moved here
        else:
            i += 1
