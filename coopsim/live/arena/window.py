"""What to evict so that a request finds room: blocks side by side, as few and as cheap as can be. Knows no torch."""

from collections.abc import Mapping, Sequence


def cheapest(layout: Sequence[tuple[int, int]], price: Mapping[int, float], nbytes: int, size: int) -> list[int]:
    """Offsets of blocks between which and the gaps around them there are so many bytes, and that cost least together.

    layout: offset and bytes of each block, from the lowest up, in an arena of `size` bytes. price: by offset, of those
    that can be evicted. Empty: no blocks will do.
    """
    best: list[int] = []
    least = float("inf")
    chosen: list[tuple[int, float]] = []  # blocks from `low` on, none of which has to stay
    low = cost = 0.0
    for k, (offset, length) in enumerate(layout):
        if offset not in price:
            chosen, low, cost = [], offset + length, 0.0
            continue
        chosen.append((offset, price[offset]))
        cost += price[offset]
        high = layout[k + 1][0] if k + 1 < len(layout) else size
        while chosen:
            after = layout[k - len(chosen) + 1]
            if high - (after[0] + after[1]) < nbytes:
                break
            cost -= chosen.pop(0)[1]
            low = after[0] + after[1]
        if high - low >= nbytes and chosen and cost < least:
            best, least = [at for at, _ in chosen], cost
    return best
