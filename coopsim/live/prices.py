"""What the ops of a step that is recorded on a card cost the GPU: as they were timed. Knows no torch."""

from collections.abc import Hashable, Mapping
from statistics import median
from typing import Any, Protocol


class LoggedCall(Protocol):
    """An entry of a step's op log."""

    func: Any
    shapes: Any  #: of its operands, of its results


def timed(
    card: str, price: Mapping[int, int], entries: Mapping[int, LoggedCall], read: Mapping[int, int]
) -> tuple[dict[int, int], str]:
    """Costs of ops in ns, and one line for the trace's header that says what they rest on. Keys are numbers of ops.

    A cost is what was read of the op; else the median of what was read of the same op on the same sizes; else its
    price.
    """
    like: dict[int, Hashable] = {number: (entry.func, *entry.shapes[:2]) for number, entry in entries.items()}
    alike: dict[Hashable, list[int]] = {}
    for number in like.keys() & read.keys():
        alike.setdefault(like[number], []).append(read[number])
    middle = {key: round(median(times)) for key, times in alike.items()}
    costs = {number: read.get(number, middle.get(like.get(number), ns)) for number, ns in price.items()}
    share = f"{len(like.keys() & read.keys())} of {len(like)} ops"
    return costs, f"measured on {card}: CUDA events around {share} of one step, after a sleep; the rest by prices"
