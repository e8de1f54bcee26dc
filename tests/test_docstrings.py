"""The examples in docstrings, which pytest does not find below coopsim/."""

import doctest
import importlib

from tests.conftest import ROOT


def test_examples_say_what_happens() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "coopsim").rglob("*.py")}
    files = [path for path, text in texts.items() if ">>>" in text and "\nimport torch\n" not in text]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files]
    results = {name: doctest.testmod(importlib.import_module(name)) for name in names}
    assert sum(result.attempted for result in results.values()) > 40
    assert [name for name, result in results.items() if result.failed] == []
