"""Arrays of bundles in kernels: reading, writing, lengths, as NumPy has them."""

from typing import Any

import numpy as np
import pytest

from tests.simulate.kernel.things import Things, shift
from tests.strict import Strict


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float64])
def test_tables_are_as_arrays(dtype: Any) -> None:
    line, rows, box = (np.arange(n, dtype=dtype) + 1 for n in (5, 12, 24))
    things = Things(line.copy(), rows.reshape(4, 3).copy(), box.reshape(2, 3, 4).copy())
    assert shift(things) == box.sum()
    assert things.line.tolist() == [2, 3, 4, 5, 2]
    expected = np.vstack([rows.reshape(4, 3)[1:], rows.reshape(4, 3)[-1:]])
    expected[-1, 1] += 7
    assert things.rows.tolist() == expected.tolist()
    assert things.box.ravel().tolist() == box.tolist()


def test_a_strict_array_refuses_what_a_kernel_must_not_do() -> None:
    strict = np.arange(6).reshape(2, 3).view(Strict)
    assert strict[1, 2] == 5
    with pytest.raises(IndexError, match="-1"):
        strict[0, -1]
    with pytest.raises(IndexError, match="-2"):
        strict[-2, 0] = 1
