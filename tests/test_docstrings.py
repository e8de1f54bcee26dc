"""Docstrings and comments below coopsim/: their examples, which pytest does not find there, and what they refer to."""

import doctest
import importlib
import re
from collections import defaultdict
from pathlib import Path

from tests.conftest import ROOT

FILES = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in sorted((ROOT / "coopsim").rglob("*.py"))}
FOLDERS = "benchmarks", "coopsim", "docs", "examples", "experiments", "tests"
SUFFIXES = "cpp", "h", "json", "py", "toml"
#: Names of modules that are also those of a user's objects or of Python's modules.
AMBIGUOUS = {"loss", "model", "time"}
#: In examples, or of others.
PLACEHOLDERS = {"path/to/file.py", "FILE.py", "a.py", "a/b.py", "a/b/c.py", "a/b/__init__.py", "coopsim.cli.NAME"}
PLACEHOLDERS |= {"pyproject.toml", "string.h", "stdint.h", "stdio.h", "stdlib.h"}
PLACEHOLDERS |= {"net.h", "seq_dtr.cpp", "tensor_storage.cpp"}
_REFERENCE = re.compile(r"(?<![\w./`-])`?(?!torch/)((?:\w+/)*[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)")
_PROSE = re.compile(r'"{3}.*?"{3}|^ *#[^\n]*|  #[^\n]*', re.DOTALL | re.MULTILINE)
_DEFINED = re.compile(r"^ *(?:def|class|from|import) .*|^ *(?:\w+, )*\w+(?=:| =)|^ +\"?\w+\"?,$", re.MULTILINE)
_EXAMPLE = re.compile(r"^ *(?:>>>|\.\.\.).*$", re.MULTILINE)


def test_examples_say_what_happens() -> None:
    files = [path for path, text in FILES.items() if ">>>" in text and "\nimport torch\n" not in text]
    results = {name: doctest.testmod(importlib.import_module(name)) for name in map(module_of, files)}
    assert sum(result.attempted for result in results.values()) > 40
    assert [name for name, result in results.items() if result.failed] == []


def test_what_they_refer_to_is_there() -> None:
    """Names of files, and dotted names that begin with one of coopsim's modules, in which the next must be defined."""
    names = {module_of(path): set(re.findall(r"\w+", " ".join(_DEFINED.findall(text)))) for path, text in FILES.items()}
    for module in names:
        package, _, name = module.rpartition(".")
        names.get(package, set()).add(name)
    modules = defaultdict(list)
    for module in names:
        modules[module.rpartition(".")[2]].append(module)
    files = [str(path) for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    missing = [
        f"{path}: {reference}"
        for path, text in FILES.items()
        for said in _PROSE.findall(text)
        for reference in _REFERENCE.findall(_EXAMPLE.sub("", said))
        if reference not in PLACEHOLDERS and not is_there(reference, names, modules, files)
    ]
    assert missing == []


def module_of(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def is_there(reference: str, names: dict[str, set[str]], modules: dict[str, list[str]], files: list[str]) -> bool:
    """Whether there is such a file, or a dotted name of a module leads to something in it; True if it is neither."""
    first, *rest = reference.removeprefix("coopsim.").split(".")
    if rest and rest[-1] in SUFFIXES:
        return any(file.endswith(f"/{reference}") for file in files)
    if first in AMBIGUOUS or first not in modules:
        return True
    return any(_leads_on(module, rest, names) for module in modules[first])


def _leads_on(module: str, rest: list[str], names: dict[str, set[str]]) -> bool:
    while rest and f"{module}.{rest[0]}" in names:
        module, rest = f"{module}.{rest[0]}", rest[1:]
    return not rest or rest[0] in names[module]
