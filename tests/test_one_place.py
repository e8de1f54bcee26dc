"""What is said in one place, so that it cannot be changed in half of them."""

import re

import pytest

from coopsim.base.types import NEWEST_TORCH
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("pattern", "where"),
    [
        (rf'"[^"\n]*{re.escape(NEWEST_TORCH)}', "base/types.py"),  # the newest PyTorch
        (r"^_?(KIB|MIB|GIB)\b[^=\n]*= ", "base/types.py"),
        (r"compiling \{?\w+.*some seconds", "simulate/kernel/jit.py"),
        (r"^__version__ = ", "version.py"),
    ],
)
def test_it_is_written_once(pattern: str, where: str) -> None:
    texts = {file.relative_to(ROOT / "coopsim").as_posix(): file.read_text() for file in ROOT.glob("coopsim/**/*.py")}
    assert [name for name, text in texts.items() if re.search(pattern, text, re.MULTILINE)] == [where]
