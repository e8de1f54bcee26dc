"""tests/ mirrors the package, tests share helpers by modules of their own, and paths of tests in pages exist."""

import ast
import re

from tests.conftest import ROOT

TESTS = ROOT / "tests"
#: Of no package: what pages, experiments/ and other versions of PyTorch are tested by, what tests read, and the
#: specification in plain Python; peers: programs of others, written again to hold ours against.
OTHERS = {"data", "docs", "experiments", "peers", "reference", "versions"}


def test_the_package_has_twelve_rooms() -> None:
    rooms = {"base", "cards", "trace", "phantom", "simulate", "study", "record", "run"}
    rooms |= {"live", "fitting", "calibrate", "cli"}
    files = {"__init__.py", "__main__.py", "api.py", "py.typed", "version.py"}
    assert {p.name for p in (ROOT / "coopsim").iterdir()} - {"__pycache__"} == rooms | files


def test_no_file_is_longer_than_300_lines() -> None:
    lines = {str(p.relative_to(ROOT)): len(p.read_bytes().splitlines()) for p in (ROOT / "coopsim").rglob("*.py")}
    assert {name: n for name, n in lines.items() if n > 300} == {}


def test_folders_are_named_after_rooms_and_their_folders() -> None:
    folders = [p for p in TESTS.iterdir() if p.is_dir() and p.name not in OTHERS | {"__pycache__"}]
    folders += [p for room in folders for p in room.iterdir() if any(p.glob("test_*.py"))]
    assert len(folders) > 25
    assert [str(p) for p in folders if not (ROOT / "coopsim" / p.relative_to(TESTS)).is_dir()] == []


def test_no_test_imports_another() -> None:
    found = []
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module or ''}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            ours = isinstance(node, ast.ImportFrom) and node.level > 0
            for name in names:
                if (ours or name.startswith("tests.")) and re.search(r"(^|\.)(test)?_", name):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name}")
    assert not found, "\n".join(found)


def test_paths_of_tests_that_are_mentioned_exist() -> None:
    sources = [ROOT / "Makefile", *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    for folder in ("coopsim", "tests", "experiments", "benchmarks"):
        sources += (ROOT / folder).rglob("*.py")
    missing = []
    for source in sources:
        text = source.read_text(encoding="utf-8")
        for path in re.findall(r"(?<![\w/-])tests/[\w./-]*\w", text):
            if not (ROOT / path).exists():
                missing.append(f"{source.relative_to(ROOT)}: {path}")
        if re.search(r'"tests"\s*/', text):
            missing.append(f"{source.relative_to(ROOT)}: write a path of tests in one string, which is found here")
    assert not missing, "\n".join(missing)
