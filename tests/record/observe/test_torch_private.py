"""Private names of PyTorch: all are in the table, all are there, and one that is missing says what does not work."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT

PACKAGES = ("fitting/inside", "live", "record", "run")  # who imports torch, but the oracle's one file
TABLE = ROOT / "coopsim" / "record" / "observe" / "torch_private.py"
#: Private names of Python's and of libraries but PyTorch.
OTHERS = {"_actions", "_bench", "_current_frames", "_exit", "_fields", "_getframe", "_parse_known_args"}

PROBE = """
import pathlib, torch
from coopsim.record.observe import private, torch_private
release = lambda text: tuple(map(int, text.partition("+")[0].split(".")[:2]))
due = [n for n in private.NAMES.values() if release(n.since) <= release(torch.__version__)]
header = pathlib.Path(torch.__file__).parent / "include" / torch_private.INTERPRETER_HEADER
functions = [name for _, name, _ in torch_private.INTERPRETER_FUNCTION.findall(header.read_text())]
answer({
    "missing": [f"{n.path}: {n.without}" for n in due if not torch_private.has(n.path)],
    "due": len(due),
    "functions": functions,
})
"""


def test_this_pytorch_has_every_name(on_phantom) -> None:
    found = on_phantom(PROBE)
    assert not found["missing"], "this PyTorch lacks\n" + "\n".join(found["missing"])
    assert found["due"] > 90
    assert {"dispatch", "detach", "device", "sizes"} <= set(found["functions"])


MISSING = """
from coopsim.record.observe import private, torch_private
from coopsim.base.types import CoopsimError
def said(call):
    try:
        call()
    except CoopsimError as error:
        return str(error)
gone = private.now("torch._C._never_there", "nothing works")
def derive():
    class Derived(gone): pass
private.known("torch._C._cuda_getDevice:no_such_word", "nothing works")
private.known("torch.nn.Module.forward_of_never", "nothing works")
answer({
    "has": [torch_private.has(path) for path in ("torch._C._never_there", "torch.nn.Module.forward_of_never",
            "torch._C._cuda_getDevice", "torch.nn.Module._apply")],
    "called": said(gone), "asked": said(lambda: gone.attribute), "derived": said(derive),
    "instance": said(lambda: isinstance(1, gone)), "entered": said(lambda: gone.__enter__()),
    "replaced": said(lambda: torch_private.replace("torch._C._never_there", 1)),
})
"""


def test_what_is_missing_says_its_name_and_what_does_not_work(on_phantom) -> None:
    found = on_phantom(MISSING)
    assert found.pop("has") == [False, False, True, True]
    for text in found.values():
        assert re.fullmatch(r"PyTorch 2\.\S+ has no torch\._C\._never_there: nothing works", text)


def test_names_are_in_the_table_and_nowhere_else() -> None:
    """The table is read as text: the tests' own process has no torch."""
    table = _table()
    attributes = {part for path in table for part in re.split("[.:]", path) if part.startswith("_")}
    files = [f for package in PACKAGES for f in sorted((ROOT / "coopsim" / package).rglob("*.py")) if f != TABLE]
    trees = {file: ast.parse(file.read_text()) for file in files}
    own = {name for tree in trees.values() for name in _defined(tree)}
    wrong = [
        f"{file.relative_to(ROOT)}:{line} {name}"
        for file, tree in trees.items()
        for line, name in _used(tree, table)
        if name.startswith("torch.") or name not in attributes | own | OTHERS
    ]
    assert not wrong, "private names of PyTorch outside of the table:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "line",
    [
        "import torch._dynamo",
        "from torch._subclasses import fake_tensor",
        "from torch.utils import _pytree",
        "torch._C._never()",
        "torch.cuda.memory._never()",
        'find("torch._C._never")',
        "tensor._never",
    ],
)
def test_such_a_line_is_found(line: str) -> None:
    assert [name for _, name in _used(ast.parse(line), _table()) if "_" in name]


def _table() -> set[str]:
    """The paths that are entered."""
    calls = (node for node in ast.walk(ast.parse(TABLE.read_text())) if isinstance(node, ast.Call))
    first = (call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("known", "now"))
    return {node.value for node in first if isinstance(node, ast.Constant)}


def _used(tree: ast.AST, table: set[str]) -> Iterator[tuple[int, str]]:
    """Line and name: whole paths of what is spelled from torch on and is private, other private attributes bare."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names if _private(a.name))
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, p) for a in node.names if _private(p := f"{node.module}.{a.name}"))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"torch(\.\w+)+", node.value)
        ):
            path = node.value
            if _private(path) and not any(entry == path or entry.startswith(f"{path}.") for entry in table):
                yield node.lineno, path
        elif isinstance(node, ast.Attribute) and re.match(r"_[a-zA-Z]", node.attr):
            path = ast.unparse(node)
            if path.startswith("torch."):
                if not any(entry == path or entry.startswith(f"{path}.") for entry in table):
                    yield node.lineno, path
            elif ast.unparse(node.value) not in ("self", "cls", "super()"):
                yield node.lineno, node.attr


def _private(path: str) -> bool:
    return path.startswith("torch.") and "._" in path


def _defined(tree: ast.AST) -> Iterator[str]:
    """Private attributes of coopsim's own classes and modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
