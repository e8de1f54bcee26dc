"""No import circle in the package: not at the top of modules, inside functions, or for type checkers only.

No module sees two classes of one name, either.
"""

import ast
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

Graph = Mapping[str, set[str]]
#: Folders whose files import our modules.
OTHERS = ("benchmarks", "docs", "examples", "experiments", "notebooks", "tests", "traces")


def modules() -> dict[str, Path]:
    """All modules of the package; a package goes by its own name."""
    paths = (ROOT / "coopsim").rglob("*.py")
    return {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in paths}


@cache
def parsed(text: str) -> tuple[list[ast.Import | ast.ImportFrom], set[str]]:
    """What a module imports, wherever in it, and the classes that it defines."""
    tree = ast.parse(text)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return imports, {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def imported(path: Path, known: Mapping[str, Path]) -> set[str]:
    """The modules of ours that a file imports, wherever in it."""
    names: set[str] = set()
    for node in parsed(path.read_text(encoding="utf-8"))[0]:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        else:
            assert node.level == 0, f"{path}: imports here are absolute"
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            names |= {part if part in known else str(node.module) for part in parts}
    return names & known.keys()


def missing(tree: ast.AST, known: Mapping[str, Path]) -> list[str]:
    """Names that a file imports from our modules, though they do not define them."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "coopsim":
            names = {f"{node.module}.{alias.name}": alias.name for alias in node.names}
            there = defined(known[node.module]) if node.module in known else set()
            found += [whole for whole, name in names.items() if name not in there and whole not in known]
        elif isinstance(node, ast.Import):
            ours = (alias.name for alias in node.names if alias.name.split(".")[0] == "coopsim")
            found += [name for name in ours if name not in known]
    return found


@cache
def defined(path: Path) -> set[str]:
    """Names that a module assigns, defines or imports at its top, and those that it finds when asked (`_WHERE`)."""
    found = set()
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Dict):
            found |= {key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
        todo += ast.iter_child_nodes(node)
    return found


def test_what_experiments_and_others_import_exists() -> None:
    """Nothing runs most experiments, which private names of ours that move would break unseen."""
    known = modules()
    files = [path for folder in OTHERS for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 200
    trees = ((path, ast.parse(path.read_text(encoding="utf-8"))) for path in files)
    assert {str(path.relative_to(ROOT)): names for path, tree in trees if (names := missing(tree, known))} == {}
    text = "from coopsim.trace import load, lood\nfrom coopsim.trce import load\nimport coopsim.trce\nimport numpy\n"
    assert missing(ast.parse(text), known) == ["coopsim.trace.lood", "coopsim.trce.load", "coopsim.trce"]


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


def seen_twice(text: str, defined: Mapping[str, set[str]]) -> list[str]:
    """Classes of one name of which a module sees two: it defines and imports one, or imports two."""
    imports, own = parsed(text)
    seen: dict[str, set[str]] = {name: {""} for name in own}
    for node in imports:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                seen[alias.name] = seen.get(alias.name, set()) | ({str(node.module)} & defined.get(alias.name, set()))
    return sorted(name for name, where in seen.items() if len(where) > 1)


def test_no_module_sees_two_classes_of_one_name() -> None:
    texts = {module: path.read_text(encoding="utf-8") for module, path in modules().items()}
    defined: dict[str, set[str]] = defaultdict(set)
    for module, text in texts.items():
        for name in parsed(text)[1]:
            defined[name].add(module)
    assert {module: twice for module, text in texts.items() if (twice := seen_twice(text, defined))} == {}
    assert seen_twice("from a import Block\ndef f():\n    from b import Block as B\n", {"Block": {"a", "b"}}) == [
        "Block"
    ]
