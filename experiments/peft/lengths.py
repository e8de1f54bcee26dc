"""Lengths of the batches, which are not published: one number, and the order that the comparison's script gives them.

It sorts 80 texts at a time from long to short, makes 20 batches of them and empties the cache after every tenth step.
The longest batch is therefore the first after an emptied cache, and follows on a short one, whose logits are still
alive. It is an outlier: the batches after it are taken to be at most 0.6 times as long. The rest is a straight line.
"""

#: Tokens. The only number that is fitted: with it the row lora/llama-3.2-3B-rank32 comes out right (longest.py).
LONGEST = 697

_TYPICAL, _NEXT, _SHORTEST = 0.69, 0.6, 1 / 7
_BATCHES, _EMPTIED = 20, 10


def sequence(longest: int) -> list[int]:
    """Tokens of each step; 0: the cache is emptied. A usual bucket of texts, then the one with the longest."""
    usual = _line(longest * _TYPICAL, longest * _SHORTEST, _BATCHES)
    last = [longest, *_line(longest * _NEXT, longest * _SHORTEST, _BATCHES - 1)]
    return [*usual[:_EMPTIED], 0, *usual[_EMPTIED:], 0, *last[:_EMPTIED], 0]


def _line(start: float, end: float, n: int) -> list[int]:
    return [round(start + (end - start) * k / (n - 1)) for k in range(n)]
