"""The length of a step: the sizes of its inputs that vary from step to step. A file of them, or draws from those seen.

A size that is an affine function of another one, as the labels' is of the texts', is none of its own.
"""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from coopsim.base.types import CoopsimError
from coopsim.run.longrun.sections import RecordedStep

#: The sizes of a step that vary; of a program whose inputs always have the same shapes it is empty.
Length: TypeAlias = tuple[int, ...]
_Sizes: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Axes:
    """Which sizes of a step's inputs vary. of_slot: the parts of a Length on which each micro-batch depends."""

    form: tuple[tuple[int, ...], ...]
    columns: tuple[int, ...]
    of_slot: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, steps: Sequence[RecordedStep]) -> "Axes":
        """Those of recorded steps, whose inputs are as many, with as many dimensions, in most of them."""
        if not steps:
            return cls((), (), ())
        form = Counter(_form(step) for step in steps).most_common(1)[0][0]
        table = sorted({_flat(step) for step in steps if _form(step) == form})
        kept: list[int] = []
        of: dict[int, int] = {}  # of each size that varies: the part of a Length from which it follows
        for column in range(len(table[0])):
            values = [row[column] for row in table]
            if len(set(values)) > 1:
                follows = (i for i, k in enumerate(kept) if _follows([row[k] for row in table], values))
                of[column] = next(follows, len(kept))
                if of[column] == len(kept):
                    kept.append(column)
        ends = [0]
        for dims in form:
            ends.append(ends[-1] + sum(dims))
        parts = [tuple(of[column] for column in range(a, b) if column in of) for a, b in itertools.pairwise(ends)]
        return cls(form, tuple(kept), tuple(tuple(sorted(set(part))) for part in parts))

    def length(self, step: RecordedStep) -> Length | None:
        """The length of a step; None if its inputs are others."""
        if _form(step) != self.form:
            return None
        flat = _flat(step)
        return tuple(flat[k] for k in self.columns)

    def of_section(self, length: Length, slot: int) -> Length:
        """The part of a length on which a section depends: its own micro-batch and the next one, which it loads."""
        if not self.of_slot:
            return ()
        wanted = range(max(slot - 1, 0), min(slot + 1, len(self.of_slot)))
        return tuple(length[i] for i in sorted({i for s in wanted for i in self.of_slot[s]}))


def read(path: Path) -> list[Length]:
    """Lengths from a text file: a line per step, each with as many positive whole numbers.

    Raises CoopsimError for anything else.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise CoopsimError(f"{path}: {getattr(e, 'strerror', None) or 'is not a text file'}") from None
    found: list[Length] = []
    for i, line in enumerate(lines, 1):
        words = line.replace(",", " ").split()
        if not words and i == len(lines):
            break
        if not words or not all(word.isascii() and word.isdecimal() and int(word) > 0 for word in words):
            what = f"{path}:{i}: {line.strip()[:40] or 'an empty line'}"
            raise CoopsimError(f"{what}: expected the length of a step, a positive whole number")
        if found and len(words) != len(found[0]):
            raise CoopsimError(f"{path}:{i}: {len(words)} numbers, and {len(found[0])} in the first line")
        found.append(tuple(map(int, words)))
    if not found:
        raise CoopsimError(f"{path}: is empty; a line per step is expected")
    return found


def given(path: Path, axes: Axes) -> list[Length]:
    """Lengths from a file, as `read` does: a number for each size that varies, or for each that does in a micro-batch.

    In the latter case all micro-batches of a step have the lengths of its line. Raises CoopsimError for other files.
    """
    found = read(path)
    n = len(axes.columns)
    if n == 0:
        raise CoopsimError(f"{path}: the inputs of the recorded steps have one length; record some of other lengths")
    apart = sorted(i for of in axes.of_slot for i in of) == list(range(n))
    if apart and all(len(of) == len(found[0]) for of in axes.of_slot):
        return [length * len(axes.of_slot) for length in found]
    if len(found[0]) != n:
        raise CoopsimError(f"{path}: has {len(found[0])} numbers per line; in the recorded steps {n} sizes vary")
    return found


def drawn(seen: Sequence[Length], count: int, seed: int) -> list[Length]:
    """Return `count` lengths drawn with replacement from those in `seen`, in which frequent ones occur more often."""
    source = random.Random(seed)
    return [source.choice(seen) for _ in range(count)]


def _form(step: RecordedStep) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(len(shape) for shape in shapes) for shapes in step.shapes)


def _flat(step: RecordedStep) -> _Sizes:
    return tuple(size for shapes in step.shapes for shape in shapes for size in shape)


def _follows(x: Sequence[int], y: Sequence[int]) -> bool:
    """Whether y is an affine function of x."""
    low, high = x.index(min(x)), x.index(max(x))
    run, rise = x[high] - x[low], y[high] - y[low]
    return all((b - y[low]) * run == rise * (a - x[low]) for a, b in zip(x, y, strict=True))
