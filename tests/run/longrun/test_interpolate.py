"""Sizes at lengths that were not recorded."""

import numpy as np

from coopsim.run.longrun.interpolate import forms, nearest
from coopsim.run.longrun.schedule import Every, every

LENGTHS = [(n,) for n in (5, 40, 17, 64, 90, 33)]


def at(f: object, lengths: list[tuple[int, ...]] = LENGTHS, length: tuple[int, ...] = (50,)) -> int | None:
    sizes = np.array([[f(*one)] for one in lengths], np.int64)  # type: ignore[operator]
    (form,) = forms(lengths, sizes)
    return None if form is None else form.at(length)


def test_what_is_found() -> None:
    assert at(lambda _: 512) == 512
    assert at(lambda n: 48 * n) == 2400
    assert at(lambda n: 7 * n + 3) == 353
    assert at(lambda n: 3 * n * n + n) == 7550
    assert at(lambda n: 100 * -(-n // 32)) == 200
    assert at(lambda n: 8 * (-(-n // 8) * 8) ** 2 + 1) == 8 * 56**2 + 1


def test_what_is_not() -> None:
    assert at(lambda n: n**3) is None
    assert at(lambda n: 5 if n < 40 else 9 * n) is None
    assert at(lambda n: (n // 7) ** 3) is None
    assert at(lambda n: n * n, LENGTHS[:3]) is None  # three points determine a square, and none checks it
    assert at(lambda n: 7 * n + 3, LENGTHS[:2]) is None


def test_constants_between_multiples() -> None:
    lengths = [(n,) for n in range(2, 300, 20)]
    assert at(lambda n: 1000 + (-(-n // 64)) ** 3, lengths) == 1001
    assert at(lambda n: 1000 + (-(-n // 64)) ** 3, lengths, (170,)) == 1027
    assert at(lambda n: 1000 + (-(-n // 64)) ** 3, lengths, (700,)) is None


def test_two_sizes_vary() -> None:
    both = [(a, b) for a in (3, 9, 20) for b in (4, 7, 30)]
    assert at(lambda _, b: 6 * b, both, (5, 11)) == 66
    assert at(lambda a, b: a * b, both, (5, 11)) is None


def test_the_nearest() -> None:
    assert [LENGTHS[i] for i in nearest((50,), LENGTHS)] == [(33,), (40,), (64,), (90,)]
    assert nearest((80,), LENGTHS) == nearest((5, 5), LENGTHS) == []


def test_how_something_recurs() -> None:
    assert every([11, 21, 31], 4, 40) == Every(11, 10)
    assert every([11, 21, 41], 4, 45) is None
    assert every([11, 21], 4, 45) is None  # it would have happened at 31
    assert every([31, 41], 4, 45) is None
    assert every([26], 4, 40, 1) == Every(26, 25, assumed=True)
    assert [n for n in range(1, 60) if Every(11, 20).at(n)] == [11, 31, 51]
