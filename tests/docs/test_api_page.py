"""docs/reference/python.md is what the docstrings say now."""

import importlib.util

from tests.conftest import ROOT

FILE = ROOT / "docs" / "_ext" / "api_page.py"


def test_the_page_is_current() -> None:
    spec = importlib.util.spec_from_file_location("api_page", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8") == module.page(), (
        "python docs/_ext/api_page.py"
    )
