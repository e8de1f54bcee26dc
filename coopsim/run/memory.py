"""A card's memory: how much it is to have, and whether what a script needs is too close to it to say that it fits."""

from coopsim.base import budget
from coopsim.base.text import human
from coopsim.base.types import CoopsimError
from coopsim.cards import profiles
from coopsim.cards.context import Context
from coopsim.phantom import ENDLESS as ENDLESS

#: From how many bytes on memory surely does not run out; the phantom can reserve as many addresses (expandable
#: segments).
SURELY_ENOUGH = 1 << 40
#: By how much of its memory a real card may differ from the phantom, in either direction. Of 46 batches that timm's
#: authors measured on an RTX 3090 (docs/accuracy.md), 41 are called right. Four of the five that train here, and did
#: not there, leave 3.5 to 5.8 % of the card; those that train in both leave 10 % and more. Not modelled are a
#: context with all kernels loaded at the start (some 1.5 GiB, as before CUDA 11.7), what libraries allocate late,
#: and other processes. The phantom can be too high, too: 15 of the 20 peaks of xMem are within 5 %.
TOO_CLOSE = 0.06


def of_card(name: str, text: str | None, option: str) -> int | None:
    """Return the bytes that `text` ("11GiB") asks for, the CUDA context included; None, the card's own, if it is None.

    `name` is the card's, and `option` is named in errors. Raises CoopsimError for an unknown card, for what is no
    amount of memory, and for an amount that the context alone takes.
    """
    card = profiles.get(name)
    if text is None:
        return None
    nbytes = budget.parse(text, card.memory_bytes, option)
    if nbytes <= (context := card.context.first_bytes):
        raise CoopsimError(f"{option} {text}: the context alone takes {human(context)} of the {card.title}")
    return nbytes


def no_more_than(name: str, nbytes: int, said: str) -> None:
    """Raise CoopsimError if the card has less than `nbytes`. `said`: the option and its value, as given."""
    card = profiles.get(name)
    if nbytes > card.memory_bytes:
        raise CoopsimError(f"{said}: the {card.title} has {human(card.memory_bytes)}")


def is_close(needs_bytes: int, has_bytes: int) -> bool:
    """Return whether need and memory differ by less than TOO_CLOSE of the memory, in either direction."""
    return abs(has_bytes - needs_bytes) < TOO_CLOSE * has_bytes


def in_words(needs_bytes: int, has_bytes: int) -> str:
    """Return, in words, by how many bytes it fits or not on the phantom GPU, and by how much a real card may differ."""
    room = has_bytes - needs_bytes
    way = f"leaves {human(room)}" if room >= 0 else f"lacks {human(-room)}"
    return f"{way} on the phantom GPU, and a real card differs by up to {TOO_CLOSE:.0%}"


def of_context(needs_bytes: int, has_bytes: int, context: Context) -> str:
    """Return, in words, how well the CUDA context is known, if need and memory differ by no more than that; else ""."""
    if abs(has_bytes - needs_bytes) > context.off_by_bytes:
        return ""
    return f"; what the CUDA context takes is known to ±{human(context.off_by_bytes)} ({context.basis})"
