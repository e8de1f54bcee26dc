"""Programs that train inside budgets run in child processes, on the phantom GPU's torch."""

import pytest

from tests.conftest import Runner

collect_ignore = [
    "scripts",
    "programs.py",
    "interrupted.py",
    "compare.py",
    "in_arena.py",
    "made_up.py",
    "streams_programs.py",
]  # of child processes


@pytest.fixture(scope="session")
def child(on_phantom: Runner) -> Runner:
    """Run Python text and give what it hands to `answer(...)`. Skips where the phantom GPU cannot be had."""
    return on_phantom
