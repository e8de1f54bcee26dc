"""What these tests share: programs given as text."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def step_file(tmp_path: Path) -> Callable[[str], str]:
    """Write a program; give the target that names its function `step`."""

    def write(text: str) -> str:
        (tmp_path / "train.py").write_text(text)
        return f"{tmp_path / 'train.py'}:step"

    return write
