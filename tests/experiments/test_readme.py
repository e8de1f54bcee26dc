"""Experiments: the README names every script that makes a page, and their imports of each other lead somewhere."""

import ast

from tests.conftest import ROOT

HERE = ROOT / "experiments"


def test_every_script_that_makes_a_page_is_named() -> None:
    """Others are programs that these start."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    texts = {path: path.read_text(encoding="utf-8") for path in HERE.glob("*/*.py")}
    made = {path for path, text in texts.items() if "docs/" in text.split('"""')[1]}
    started = {path for path in made if '__name__ == "__main__"' in texts[path]}
    assert len(started) > 15
    unnamed = [
        str(path.relative_to(HERE))
        for path in started
        if path.name not in readme
        and f"`.{path.stem}`" not in readme
        and f"experiments.{path.parent.name}.{path.stem}`" not in readme
    ]
    assert sorted(unnamed) == []


def test_imports_of_each_other_lead_somewhere() -> None:
    """Most scripts are run by nobody for long, and none is imported by all tests."""
    missing, found = [], 0
    for path in HERE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == HERE.name:
                module = ROOT.joinpath(*str(node.module).split("."))
                names = [module.with_suffix(".py")] if module.with_suffix(".py").exists() else []
                names = names or [module / f"{alias.name}.py" for alias in node.names]
                found += 1
                missing += [f"{path.relative_to(ROOT)}:{node.lineno}: {name}" for name in names if not name.exists()]
    assert found > 50
    assert missing == []
