"""Functions that are called once a module has been imported as a whole."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from coopsim.run.probes.imports import after_import

# A package whose first line imports what looks for it: `torch` is first imported from within accelerate.
OUTER = "import inner\nclass Late: pass\n"


def _seen(name: str, seen: list[str]) -> None:
    def call(module: ModuleType) -> None:
        seen.append(f"{module.__name__} {hasattr(module, 'Late')}")

    after_import(name, call)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return tmp_path


@pytest.mark.parametrize("ends", [True, False])
def test_a_module_whose_import_is_under_way(folder: Path, ends: bool) -> None:
    seen: list[str] = []
    after_import("inner", lambda _: _seen("outer", seen))  # as fit's plugin begins when torch has been imported
    (folder / "inner.py").write_text("")
    (folder / "outer.py").write_text(OUTER if ends else "import inner\nraise ValueError\n")
    if ends:
        assert __import__("outer").__spec__.name == "outer"
        assert seen == ["outer True"]
        _seen("outer", seen)
        assert seen == ["outer True"] * 2
    else:
        with pytest.raises(ValueError, match=r"^$"):
            __import__("outer")
        assert seen == []


def test_a_module_that_is_imported_later_is_seen_once(folder: Path) -> None:
    seen: list[str] = []
    (folder / "inner.py").write_text("")
    (folder / "outer.py").write_text(OUTER)
    _seen("outer", seen)
    assert not seen
    __import__("outer")
    __import__("outer")
    assert seen == ["outer True"]
