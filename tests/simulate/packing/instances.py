"""Instances with a known optimum: a rectangle, memory by time, is cut into pieces at random, without waste."""

import random

from coopsim.simulate.packing import Items


def cut(count: int, seed: int, *, side: int = 1024, unit: int = 1024) -> Items:
    """About `count` items that fill `side * unit` bytes through `side` moments: that height is the least there is.

    Pieces are cut in two, along either axis, or around a middle one in five (a pinwheel), which no series of straight
    cuts through the whole could make.
    """
    dice = random.Random(seed)
    pieces = [(0, side, 0, side)]  # from, to in time; from, to in memory
    while len(pieces) < count:
        largest = max(dice.sample(range(len(pieces)), min(3, len(pieces))), key=lambda k: _area(pieces[k]))
        t0, t1, y0, y1 = pieces[largest]
        kind = dice.random()
        if kind < 0.35 and t1 - t0 >= 3 and y1 - y0 >= 3:
            (a, b), (c, d) = (sorted(dice.sample(range(x + 1, y), 2)) for x, y in ((t0, t1), (y0, y1)))
            made = [(t0, b, y0, c), (b, t1, y0, d), (a, t1, d, y1), (t0, a, c, y1), (a, b, c, d)]
            if dice.random() < 0.5:
                made = [(t0 + t1 - q, t0 + t1 - p, u, v) for p, q, u, v in made]
        elif dice.random() < 0.5 and t1 - t0 >= 2:
            a = dice.randrange(t0 + 1, t1)
            made = [(t0, a, y0, y1), (a, t1, y0, y1)]
        elif y1 - y0 >= 2:
            c = dice.randrange(y0 + 1, y1)
            made = [(t0, t1, y0, c), (t0, t1, c, y1)]
        else:
            continue
        pieces[largest : largest + 1] = made
    dice.shuffle(pieces)
    t0, t1, y0, y1 = zip(*pieces, strict=True)
    return Items.of([(b - a) * unit for a, b in zip(y0, y1, strict=True)], t0, t1)


def least_height(items: Items) -> int:
    """The least height there is, by trying every offset of every item; for a handful of small items."""
    sizes, starts, ends, alignments = (a.tolist() for a in (items.bytes, items.start, items.end, items.alignment))
    placed: list[int] = []

    def fits(height: int) -> bool:
        i = len(placed)
        if i == len(sizes):
            return True
        for offset in range(0, height - sizes[i] + 1, alignments[i]):
            if any(
                starts[j] < ends[i] and starts[i] < ends[j] and at < offset + sizes[i] and offset < at + sizes[j]
                for j, at in enumerate(placed)
            ):
                continue
            placed.append(offset)
            found = fits(height)
            placed.pop()
            if found:
                return True
        return False

    height = max(sum(n for n, a, b in zip(sizes, starts, ends, strict=True) if a <= t < b) for t in starts)
    while not fits(height):
        height += 1
    return height


def _area(piece: tuple[int, int, int, int]) -> int:
    return (piece[1] - piece[0]) * (piece[3] - piece[2])
