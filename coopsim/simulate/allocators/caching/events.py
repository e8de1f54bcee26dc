"""record_stream and the events that guard a freed block until the streams that used it have gone past them.

Lists of links: the streams recorded on a block, and each stream's queue of events.
"""

from coopsim.simulate.allocators.caching import state as c
from coopsim.simulate.allocators.caching.blocks import free_block
from coopsim.simulate.allocators.caching.hashed import empty, end_of, enter, erase
from coopsim.simulate.kernel.jit import inlined, kernel


@inlined
def new_link(A: c.Caching, key: int, block: int) -> int:
    """A link with nothing after it."""
    link = A.K[c.K_LINK]
    A.K[c.K_LINK] = A.L[link, c.L_NEXT]
    A.K[c.K_LINKS_LEFT] -= 1
    A.L[link, c.L_KEY] = key
    A.L[link, c.L_BLOCK] = block
    A.L[link, c.L_NEXT] = c.NONE
    return link


@inlined
def drop_link(A: c.Caching, link: int) -> int:
    """The link may be used again. Returns the one after it."""
    following = A.L[link, c.L_NEXT]
    A.L[link, c.L_NEXT] = A.K[c.K_LINK]
    A.K[c.K_LINK] = link
    A.K[c.K_LINKS_LEFT] += 1
    return following


@kernel
def record_stream(A: c.Caching, b: int, stream: int) -> None:
    """That stream uses block b too. Its own stream and one recorded before change nothing."""
    if stream == A.B[b, c.STREAM]:
        return
    uses, last, link = 1, c.NONE, A.B[b, c.USES]
    guards = c.NONE if A.K[c.K_HOLDING] > 0 else b
    while link >= 0:
        if A.L[link, c.L_KEY] == stream:
            if guards < 0:
                A.L[link, c.L_BLOCK] = guards
            return
        uses += 1
        last = link
        link = A.L[link, c.L_NEXT]
    link = new_link(A, stream, guards)
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
def defer(A: c.Caching, b: int) -> None:
    """Block b is freed in a capture, but other streams use it: its events are recorded when no capture is underway."""
    link = A.B[b, c.USES]
    while link >= 0:
        A.K[c.K_DEFERRED_USES] += 1
        link = A.L[link, c.L_NEXT]
    link = new_link(A, 0, b)
    if A.K[c.K_DEFERRED] < 0:
        A.K[c.K_DEFERRED] = link
    else:
        A.L[A.K[c.K_DEFERRED + 1], c.L_NEXT] = link
    A.K[c.K_DEFERRED + 1] = link


@kernel
def _keep_uses(A: c.Caching, b: int) -> None:
    """Forget the streams that were recorded on b in a capture; the others are in the order of the hash table then."""
    empty(A, c.RECORDED, 0)
    link, captured = A.B[b, c.USES], False
    while link >= 0:
        captured = captured or A.L[link, c.L_BLOCK] < 0
        row = enter(A, c.RECORDED, A.L[link, c.L_KEY])
        A.T[c.RECORDED, row, c.T_HEAD] = A.L[link, c.L_BLOCK]
        link = A.L[link, c.L_NEXT]
    if not captured:
        return
    link = A.B[b, c.USES]
    while link >= 0:
        link = drop_link(A, link)
    A.B[b, c.USES] = last = c.NONE
    for i in range(end_of(A, c.RECORDED)):
        if A.T[c.RECORDED, i, c.T_DISTANCE] == c.NONE or A.T[c.RECORDED, i, c.T_HEAD] < 0:
            continue
        link = new_link(A, A.T[c.RECORDED, i, c.T_STREAM], b)
        if last < 0:
            A.B[b, c.USES] = link
        else:
            A.L[last, c.L_NEXT] = link
        last = link


@kernel
def record_deferred(A: c.Caching) -> None:
    """No capture is underway: record the events of the blocks that were freed in one."""
    link = A.K[c.K_DEFERRED]
    A.K[c.K_DEFERRED] = c.NONE
    A.K[c.K_DEFERRED_USES] = 0
    while link >= 0:
        b = A.L[link, c.L_BLOCK]
        link = drop_link(A, link)
        _keep_uses(A, b)
        if A.B[b, c.USES] >= 0:
            record_events(A, b)
        else:
            free_block(A, b)


@kernel
def await_events(A: c.Caching, first: int) -> None:
    """Let the clock run until the blocks of one private pool, whose sets begin at `first`, are free."""
    record_deferred(A)
    i, end = 0, end_of(A, c.QUEUES)
    while i < end:
        if A.T[c.QUEUES, i, c.T_DISTANCE] == c.NONE:
            i += 1
            continue
        last, event = c.NONE, A.T[c.QUEUES, i, c.T_HEAD]
        while event >= 0:
            b = A.L[event, c.L_BLOCK]
            if A.B[b, c.POOL] & ~c.SMALL != first:
                last = event
                event = A.L[event, c.L_NEXT]
                continue
            A.K[c.K_CLOCK] = max(A.K[c.K_CLOCK], A.L[event, c.L_KEY])
            event = drop_link(A, event)
            if last < 0:
                A.T[c.QUEUES, i, c.T_HEAD] = event
            else:
                A.L[last, c.L_NEXT] = event
            A.B[b, c.PENDING] -= 1
            if A.B[b, c.PENDING] == 0:
                free_block(A, b)
        A.T[c.QUEUES, i, c.T_TAIL] = last
        if last < 0:
            erase(A, c.QUEUES, i)
        else:
            i += 1


@kernel
def process_events(A: c.Caching, wait: bool) -> None:
    """Free the blocks whose events have completed; `wait`: let the clock run until all have. Not in a capture."""
    if A.K[c.K_DEFERRED] >= 0:
        record_deferred(A)
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
