"""Find memory that a loop keeps from iteration to iteration: a leak, or a list that grows."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from coopsim.trace.request_rows import ALLOCATE, KIND, NUMBER
from coopsim.trace.requests import Requests
from coopsim.trace.snapshot.loop import Loop
from coopsim.trace.snapshot.loop import loop as find_loop
from coopsim.trace.snapshot.model import Snapshot

_FEWEST = 3  #: the fewest earlier iterations of which a line must keep something
_PART = 20  #: growth counts if it is at least one in so many of all bytes held


@dataclass(frozen=True)
class LoopGrowth:
    """What earlier iterations of a loop keep: bytes, and the lines that requested most of them.

    line: the line of the loop at which the history ends. iterations: their number, the last one included.
    """

    line: str
    iterations: int
    nbytes: int
    holders: tuple[str, ...]

    def text(self) -> str:
        """Return a line of text about it."""
        each = f"{self.iterations - 1} earlier iterations of the loop at {self.line}"
        return f"{each} keep it, asked for at {', '.join(self.holders)}"


def growth(snapshot: Snapshot, requests: Requests, row: int) -> LoopGrowth | None:
    """Return what earlier iterations of the loop that the program is in hold, after the requests up to `row`.

    None if there is no loop, if that is less than a twentieth of all that is held, or if no line keeps something of
    three iterations: what is made once, such as parameters and an optimizer's state, is from one. A loop in a library
    counts only if its iterations also free something, unlike an optimizer that makes its state, parameter by parameter.
    """
    last = int(requests.source[row])
    loop = find_loop(snapshot.events[: last + 1])
    if loop is None:
        return None
    sizes, start, _ = requests.lifetimes()
    held = {number: int(start[number]) for number in requests.held(row).tolist()}  # the row of each
    if not loop.is_own and not _frees(loop, requests, row, held):
        return None
    final = dict(loop.of.values())  # the last iteration of each line
    kept: dict[str, dict[int, list[int]]] = {}
    for number, at in held.items():
        key, turn = loop.of.get(int(requests.source[at]), ("", 0))
        if at >= requests.prologue and turn and turn < final[key]:
            kept.setdefault(key, {}).setdefault(turn, []).append(number)
    old = [n for turns in kept.values() if len(turns) >= _FEWEST for numbers in turns.values() for n in numbers]
    nbytes = sum(int(sizes[n]) for n in old)
    if nbytes * _PART < sum(int(sizes[n]) for n in held):
        return None
    holders = Counter[str]()
    for n in old:
        holders[requests.labels[n]] += int(sizes[n])
    return LoopGrowth(loop.line, loop.count, nbytes, tuple(label for label, _ in holders.most_common(3)))


def _frees(loop: Loop, requests: Requests, row: int, held: dict[int, int]) -> bool:
    """Return whether memory that at least three iterations of the loop requested was freed again."""
    takes = np.flatnonzero((requests.rows[: row + 1, KIND] == ALLOCATE) & (np.arange(row + 1) >= requests.prologue))
    gone = [at for at in takes.tolist() if int(requests.rows[at, NUMBER]) not in held]
    return len({loop.of[at] for at in requests.source[gone].tolist() if at in loop.of}) >= _FEWEST
