"""The site's command line reference says what the parser knows, and every page is in the site's table of contents."""

import argparse
import importlib.util
import re
from typing import Any

from coopsim.cli.parser import build
from tests.conftest import ROOT

_spec = importlib.util.spec_from_file_location("cli_reference", ROOT / "docs" / "_ext" / "cli_reference.py")
assert _spec is not None
assert _spec.loader is not None
cli_reference: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cli_reference)


def options(parser: argparse.ArgumentParser) -> set[str]:
    """Every long option of a parser and of those below it."""
    found = set()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                found |= options(inner)
        found |= {o for o in action.option_strings if o.startswith("--")}
    return found - {"--help", "--version"}


def test_all_verbs_and_options_are_there() -> None:
    text = "\n".join(cli_reference.pages(build()))
    verbs = re.findall(r"^## `coopsim (.*)`$", text, re.MULTILINE)
    (known,) = (a for a in build()._actions if isinstance(a, argparse._SubParsersAction))
    assert list(dict.fromkeys(v.split()[0] for v in verbs)) == list(known.choices)  # live has two actions
    assert "phantom run" in verbs
    named = (row.split(" | ")[0] for row in re.findall(r"^\| .*`--.*", text, re.MULTILINE))
    assert options(build()) == {option for names in named for option in re.findall(r"`(--[\w-]+)", names)}
    assert "--budget B" in text
    assert "60% of the peak" in text  # percent signs are argparse's own
    assert "%(" not in text


def test_tables_have_two_columns() -> None:
    for line in cli_reference.pages(build()):
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 3, line


def test_every_page_is_in_the_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = {
        line.strip() for tree in re.findall(r"```\{toctree\}(.*?)```", index, re.DOTALL) for line in tree.splitlines()
    }
    pages = {str(p.relative_to(ROOT / "docs").with_suffix("")) for p in (ROOT / "docs").rglob("*.md")}
    pages = {p for p in pages if not p.startswith(("notebooks/", "_"))} - {"index"}
    assert pages <= listed, "add it to a toctree of docs/index.md"
    assert "notebooks/*" in listed


def test_the_index_shows_every_page() -> None:
    """Where the page is read as a file, the table of contents is not seen."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    text = re.sub(r"```.*?```", "", index, flags=re.DOTALL)
    shown = set(re.findall(r"\]\(([\w/.-]+\.(?:md|ipynb))[#)]", text))
    pages = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")} - {"index.md"}
    pages = {p for p in pages if not p.startswith(("notebooks/", "_"))}
    notebooks = {f"../notebooks/{p.name}" for p in (ROOT / "notebooks").glob("*.ipynb")}
    assert pages | notebooks <= shown, "add it to a table of docs/index.md"
