"""Sizes of requests at lengths that were not recorded: exact on all that were, or none.

A request's size is taken to be constant, proportional to one of the sizes that vary, affine or quadratic in it; that
size may first be rounded up to a multiple (kernels pad). The simplest form that is right for every recorded length is
taken, which are more than it has coefficients. Where none is (kernels differ for long inputs), it may be a constant
between multiples of a number, of those where lengths were recorded; or a form is asked of the nearest lengths only, two
below and two above.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from coopsim.run.longrun.recorded import Ints

_MULTIPLES = (1, 8, 16, 32, 64, 128, 256)
_NEAR = 2


class Form(Protocol):
    """Bytes as a function of a length."""

    def at(self, length: Sequence[int]) -> int | None:
        """Bytes; None where they are not known, or would be no natural number."""


@dataclass(frozen=True)
class LengthTable:
    """Bytes by part `axis` of a length, rounded up to `multiple`."""

    axis: int
    multiple: int
    values: tuple[tuple[int, int], ...]

    def at(self, length: Sequence[int]) -> int | None:
        """Bytes; None where no length was recorded."""
        return dict(self.values).get(_up(length[self.axis], self.multiple))


@dataclass(frozen=True)
class Polynomial:
    """A polynomial through `points`, pairs of a length rounded up to `multiple` and bytes, in part `axis` of it."""

    axis: int
    multiple: int
    points: tuple[tuple[int, int], ...]

    def at(self, length: Sequence[int]) -> int | None:
        """Bytes; None where they would be no natural number."""
        x = _up(length[self.axis], self.multiple)
        total = Fraction(0)
        for i, (a, y) in enumerate(self.points):
            term = Fraction(y)
            for j, (b, _) in enumerate(self.points):
                if i != j:
                    term *= Fraction(x - b, a - b)
            total += term
        return int(total) if total.denominator == 1 and total >= 0 else None


def forms(lengths: Sequence[Sequence[int]], sizes: Ints) -> list[Form | None]:
    """The form of each column of `sizes`, whose rows are of these lengths; None where none fits."""
    columns, inverse = np.unique(sizes, axis=1, return_inverse=True)
    found = [_form(lengths, columns[:, k].tolist()) for k in range(columns.shape[1])]
    return [found[k] for k in inverse.reshape(-1).tolist()]


def nearest(length: Sequence[int], lengths: Sequence[Sequence[int]]) -> list[int]:
    """Which of these lengths are nearest: two below and two above, or [] where there are not; of one number only."""
    if len(length) != 1:
        return []
    order = sorted(range(len(lengths)), key=lambda i: lengths[i][0])
    below = [i for i in order if lengths[i][0] < length[0]][-_NEAR:]
    above = [i for i in order if lengths[i][0] > length[0]][:_NEAR]
    return [*below, *above] if len(below) == len(above) == _NEAR else []


def _form(lengths: Sequence[Sequence[int]], sizes: list[int]) -> Form | None:
    if not lengths or not lengths[0]:
        return None
    if len(lengths) > 1 and len(set(sizes)) == 1:
        return Polynomial(0, 1, ((1, sizes[0]),))
    for origin, degree in ((True, 1), (False, 1), (False, 2)):
        for axis in range(len(lengths[0])):
            for multiple in _MULTIPLES:
                form = _through(lengths, sizes, axis, multiple, degree, origin=origin)
                if form is not None:
                    return form
    return _table(lengths, sizes)


def _table(lengths: Sequence[Sequence[int]], sizes: list[int]) -> LengthTable | None:
    """Constants between the largest multiples that are right; most of them must be right for several lengths."""
    for multiple in reversed(_MULTIPLES[1:]):
        for axis in range(len(lengths[0])):
            known: dict[int, list[int]] = {}
            for length, nbytes in zip(lengths, sizes, strict=True):
                known.setdefault(_up(length[axis], multiple), []).append(nbytes)
            several = sum(len(of) > 1 for of in known.values())
            if 2 * several > len(known) and all(len(set(of)) == 1 for of in known.values()):
                return LengthTable(axis, multiple, tuple((x, of[0]) for x, of in known.items()))
    return None


def _through(
    lengths: Sequence[Sequence[int]], sizes: list[int], axis: int, multiple: int, degree: int, *, origin: bool
) -> Polynomial | None:
    """The form with so many coefficients, if it is right for all lengths and these are more."""
    known: dict[int, int] = {}
    for length, nbytes in zip(lengths, sizes, strict=True):
        if known.setdefault(_up(length[axis], multiple), nbytes) != nbytes:
            return None
    if len(known) < degree + 2 - origin:
        return None
    xs = sorted(known)
    points = [(0, 0)] * origin + [(x, known[x]) for x in (xs[0], xs[-1])][origin:]
    points += [(x, known[x]) for x in [xs[len(xs) // 2]] * (degree == 2)]
    form = Polynomial(axis, multiple, tuple(points))
    return form if all(form.at((x,) * (axis + 1)) == nbytes for x, nbytes in known.items()) else None


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
