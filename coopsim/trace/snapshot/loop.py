"""Find the loop in which a program was at the end of its history, from the stacks of its requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import PurePath
from typing import NamedTuple

from coopsim.trace.snapshot.model import SnapshotEvent, StackFrame, is_own, is_python

#: Functions that call a module, or an optimizer's step. Loops below them are over layers or parameters, within one
#: step.
_CALLS = frozenset({("module.py", "_call_impl"), ("module.py", "_wrapped_call_impl"), ("optimizer.py", "wrapper")})
_FEWEST = 4  #: iterations, the last one included


class _Line(NamedTuple):
    text: str
    is_own: bool


_PART, _HERE = _Line("a part of a step", False), _Line("", False)  # a call of one of _CALLS; no line below the last one


@dataclass(frozen=True)
class Loop:
    """A loop. line: the one at which the history ends; is_own: whether it is the user's own code. count: iterations.

    of: for each event in the loop, by its index, the line of the loop that it is below, and the iteration of that line,
    from 1.
    """

    line: str
    is_own: bool
    count: int
    of: dict[int, tuple[str, int]]


def loop(events: Sequence[SnapshotEvent]) -> Loop | None:
    """Return the outermost loop of at least four iterations in whose last one the history ends; None if there is none.

    A request without a Python stack, as in the threads of a backward pass, counts to the place of the one before it.
    """
    found: list[tuple[int, tuple[_Line, ...]]] = []
    path: tuple[_Line, ...] = ()
    for at, event in enumerate(events):
        if event.action in ("alloc", "oom"):
            path = _path(event.frames) or path
            found.append((at, path))
    depth = 0
    while found:
        at_depth = [(path[depth] if depth < len(path) else _HERE, (at, path)) for at, path in found]
        stretches = [(key, [f for _, f in group]) for key, group in groupby(at_depth, lambda pair: pair[0])]
        last, inside = stretches[-1]
        turns = [i for i, (key, _) in enumerate(stretches) if key == last]
        if len(turns) >= _FEWEST:
            inside_it = {key for key, _ in stretches[turns[-2] :]}
            counts: dict[_Line, int] = {}
            of: dict[int, tuple[str, int]] = {}
            for key, members in stretches:
                counts[key] = counts.get(key, 0) + 1
                if key in inside_it:
                    of.update((at, (key.text, counts[key])) for at, _ in members)
            own = [line for line in inside[-1][1][: depth + 1] if line is not _PART]
            return Loop(own[-1].text, own[-1].is_own, len(turns), of) if own else None
        if last in (_HERE, _PART):
            break
        found, depth = inside, depth + 1
    return None


@cache
def _path(frames: tuple[StackFrame, ...]) -> tuple[_Line, ...]:
    """Return a stack's Python lines from the outermost down to the call of a module or of an optimizer's step."""
    path: list[_Line] = []
    for frame in reversed(frames):
        if (PurePath(frame.file).name, frame.name) in _CALLS:
            return (*path, _PART)
        if is_python(frame):
            path.append(_Line(f"{PurePath(frame.file).name}:{frame.line} {frame.name}", is_own(frame)))
    return tuple(path)
