"""No import circle in the package: not at the top of modules, inside functions, or for type checkers only."""

import ast
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import ROOT

Graph = Mapping[str, set[str]]


def modules() -> dict[str, Path]:
    """All modules of the package; a package goes by its own name."""
    paths = (ROOT / "coopsim").rglob("*.py")
    return {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in paths}


def imported(path: Path, known: Mapping[str, Path]) -> set[str]:
    """The modules of ours that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports here are absolute"
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            names |= {part if part in known else str(node.module) for part in parts}
    return names & known.keys()


def circle(graph: Graph) -> list[str]:
    """Modules that import each other, round and round; empty if none do."""
    done: set[str] = set()

    def search(way: list[str]) -> list[str]:
        for name in sorted(graph.get(way[-1], ())):
            if name in way:
                return [*way[way.index(name) :], name]
            if name not in done and (found := search([*way, name])):
                return found
        done.add(way[-1])
        return []

    return next((found for name in sorted(graph) if (found := search([name]))), [])


def test_no_module_imports_itself_by_way_of_others() -> None:
    known = modules()
    assert len(known) > 200
    graph = {name: imported(path, known) for name, path in known.items()}
    graph["coopsim"] = set()  # the face of the package, which names the API and loads it when it is asked for
    assert circle(graph) == []


def test_a_circle_would_be_found() -> None:
    assert circle({"a": {"b", "d"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
