"""Lists of links: the streams recorded on a block, and each stream's queue of events."""

from coopsim.allocators.caching.state import (
    K_LINK,
    K_LINKS_LEFT,
    L_BLOCK,
    L_KEY,
    L_NEXT,
    NONE,
    Caching,
)
from coopsim.kernel.jit import inlined


@inlined
def new_link(A: Caching, key: int, block: int) -> int:
    """A link with nothing after it."""
    link = A.K[K_LINK]
    A.K[K_LINK] = A.L[link, L_NEXT]
    A.K[K_LINKS_LEFT] -= 1
    A.L[link, L_KEY] = key
    A.L[link, L_BLOCK] = block
    A.L[link, L_NEXT] = NONE
    return link


@inlined
def drop_link(A: Caching, link: int) -> int:
    """The link may be used again. Returns the one after it."""
    following = A.L[link, L_NEXT]
    A.L[link, L_NEXT] = A.K[K_LINK]
    A.K[K_LINK] = link
    A.K[K_LINKS_LEFT] += 1
    return following
