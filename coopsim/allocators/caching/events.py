"""record_stream and the events that guard a freed block until the streams that used it have gone past them."""

from coopsim.allocators.caching import state as c
from coopsim.allocators.caching.free import free_block
from coopsim.allocators.caching.hashed import empty, end_of, enter, erase
from coopsim.allocators.caching.links import drop_link, new_link
from coopsim.kernel.jit import kernel


@kernel
def record_stream(A: c.Caching, b: int, stream: int) -> None:
    """That stream uses block b too. Its own stream and one recorded before change nothing."""
    if stream == A.B[b, c.STREAM]:
        return
    uses, last, link = 1, c.NONE, A.B[b, c.USES]
    while link >= 0:
        if A.L[link, c.L_KEY] == stream:
            return
        uses += 1
        last = link
        link = A.L[link, c.L_NEXT]
    link = new_link(A, stream, b)
    if last < 0:
        A.B[b, c.USES] = link
    else:
        A.L[last, c.L_NEXT] = link
    A.K[c.K_MOST_USES] = max(A.K[c.K_MOST_USES], uses)


@kernel
def record_events(A: c.Caching, b: int) -> None:
    """Block b is freed, but other streams use it: an event on each, and b is free when all have completed."""
    empty(A, c.RECORDED, 0)
    link = A.B[b, c.USES]
    while link >= 0:
        enter(A, c.RECORDED, A.L[link, c.L_KEY])
        link = drop_link(A, link)
    A.B[b, c.USES] = c.NONE
    for i in range(end_of(A, c.RECORDED)):
        if A.T[c.RECORDED, i, c.T_DISTANCE] == c.NONE:
            continue
        queue = enter(A, c.QUEUES, A.T[c.RECORDED, i, c.T_STREAM])
        event = new_link(A, A.K[c.K_CLOCK] + A.K[c.K_DELAY], b)
        if A.T[c.QUEUES, queue, c.T_HEAD] < 0:
            A.T[c.QUEUES, queue, c.T_HEAD] = event
        else:
            A.L[A.T[c.QUEUES, queue, c.T_TAIL], c.L_NEXT] = event
        A.T[c.QUEUES, queue, c.T_TAIL] = event
        A.B[b, c.PENDING] += 1


@kernel
def process_events(A: c.Caching, wait: bool) -> None:
    """Free the blocks whose events have completed; `wait`: let the clock run until all have."""
    if A.K[c.K_TABLES + 2 * c.QUEUES + 1] == 0:
        return
    i, end = 0, end_of(A, c.QUEUES)
    while i < end:
        if A.T[c.QUEUES, i, c.T_DISTANCE] == c.NONE:
            i += 1
            continue
        event = A.T[c.QUEUES, i, c.T_HEAD]
        while event >= 0 and (wait or A.L[event, c.L_KEY] <= A.K[c.K_CLOCK]):
            A.K[c.K_CLOCK] = max(A.K[c.K_CLOCK], A.L[event, c.L_KEY])
            b = A.L[event, c.L_BLOCK]
            event = drop_link(A, event)
            A.B[b, c.PENDING] -= 1
            if A.B[b, c.PENDING] == 0:
                free_block(A, b)
        A.T[c.QUEUES, i, c.T_HEAD] = event
        if event < 0:
            erase(A, c.QUEUES, i)  # another queue may have moved here
        else:
            i += 1
