"""docs/reference/python.md is what the docstrings say now."""

import importlib.util

import coopsim
from tests.conftest import ROOT

FILE = ROOT / "docs" / "_ext" / "api_page.py"


def test_the_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("api_page", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    assert text == module.page(), "python docs/_ext/api_page.py"
    assert [name for name in coopsim.__all__ if f"coopsim.{name}" not in text] == []
