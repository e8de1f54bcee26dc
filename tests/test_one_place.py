"""What is said in one place, so that it cannot be changed in half of them."""

import re
from collections import Counter

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


#: Each of several classes: of live's, whose words are those of a step that runs, and of users' searches and models.
SEVERAL = {"Block", "Call", "Context", "Entry", "Failure", "Kept", "Planning", "Recording", "Requests", "Search"}
SEVERAL |= {"State", "Where"}


def test_a_class_name_has_one_meaning() -> None:
    text = "\n".join(file.read_text() for file in ROOT.glob("coopsim/**/*.py"))
    names = Counter(re.findall(r"^ *class ([A-Za-z]\w*)\b", text, re.MULTILINE))
    assert {name for name, count in names.items() if count > 1} <= SEVERAL
