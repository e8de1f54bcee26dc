"""Scripts of experiments/: those in folders of programs import their neighbours by bare names."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT

HERE = ROOT / "experiments"

collect_ignore = ["gpu/reference.py"]  # a program for a Python with a CPU build of PyTorch


@pytest.fixture
def script() -> Iterator[Callable[[str], ModuleType]]:
    """Imports a script by its name, with its own modules, which are gone afterwards."""
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(HERE):
            del sys.modules[name]
