"""A step that is watched takes the memory that it takes unwatched: gradients are added up in place where they would be.

Held against the unwatched program: the events of PyTorch's own allocator, in order.
"""

import pytest

from tests.conftest import Runner
from tests.record.observe.accumulation import CASES, PROGRAM


@pytest.fixture(scope="module")
def histories(on_phantom: Runner) -> dict[str, list[list[list[object]]]]:
    """By case: the allocator's events unwatched, and watched."""
    return on_phantom(PROGRAM)


@pytest.mark.parametrize("case", CASES)
def test_watched_like_unwatched(case: str, histories: dict[str, list[list[list[object]]]]) -> None:
    unwatched, watched, derived = histories[case]
    assert len(unwatched) > 4
    assert watched == unwatched
    assert derived == unwatched
