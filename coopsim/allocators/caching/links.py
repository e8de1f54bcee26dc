"""Lists of links: the streams recorded on a block, and each stream's queue of events."""

from coopsim.allocators.caching import state as c
from coopsim.kernel.jit import inlined


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
