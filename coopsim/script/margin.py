"""Tell when the memory that a script needs is too close to the card's to say whether it fits."""

from coopsim.phantom.context import Context
from coopsim.text import human

#: The margin, as a fraction of the card's memory. Of 46 batches that timm's authors measured on an RTX 3090
#: (docs/accuracy.md), 41 are called right. Four of the five that train here, and did not there, leave 3.5 to 5.8 % of
#: the card; those that train in both leave 10 % and more. Not modelled are a context with all kernels loaded at the
#: start (some 1.5 GiB, as before CUDA 11.7), what libraries allocate late, and other processes. The phantom
#: can be too high, too: 15 of the 20 peaks of xMem are within 5 %.
TOO_CLOSE = 0.06


def is_close(needs_bytes: int, has_bytes: int) -> bool:
    """Return whether need and memory differ by less than TOO_CLOSE of the memory, in either direction."""
    return abs(has_bytes - needs_bytes) < TOO_CLOSE * has_bytes


def text(needs_bytes: int, has_bytes: int) -> str:
    """Return, in words, by how many bytes it fits or not on the phantom GPU, and by how much a real card may differ."""
    room = has_bytes - needs_bytes
    way = f"leaves {human(room)}" if room >= 0 else f"lacks {human(-room)}"
    return f"{way} on the phantom GPU, and a real card differs by up to {TOO_CLOSE:.0%}"


def of_context(needs_bytes: int, has_bytes: int, context: Context) -> str:
    """Return, in words, how well the CUDA context is known, if need and memory differ by no more than that; else ""."""
    if abs(has_bytes - needs_bytes) > context.off_by_bytes:
        return ""
    return f"; what the CUDA context takes is known to ±{human(context.off_by_bytes)} ({context.basis})"
