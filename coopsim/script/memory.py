"""Parse and check how much memory a card is to have."""

from coopsim import budget
from coopsim.phantom import profiles
from coopsim.text import human
from coopsim.types import CoopsimError

#: Bytes of a card on which memory does not run out; and from how many on it surely does not.
ENDLESS = 4 << 40
SURELY_ENOUGH = 1 << 40


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
