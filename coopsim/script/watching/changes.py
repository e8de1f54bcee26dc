"""The line of a file that changes a variable: what a user has to look at, found in the source alone."""

import ast
import functools
from collections.abc import Callable
from pathlib import Path

_CHANGES = ("append", "extend", "add", "insert", "update", "appendleft", "setdefault", "put", "put_nowait", "push")


def changed_at(file: str, name: str) -> str:
    """file:line of the first statement that adds to a variable or attribute with the last part of this name.

    If there is none: that computes another value for the attribute; that defines the function with this name; that
    calls a method of the variable of which it is an attribute; or that makes the variable. "" if it is not found.
    """
    first, _, last = name.rpartition(".")
    try:
        nodes = [node for node in ast.walk(_parsed(file)) if isinstance(node, (ast.stmt, ast.expr))]
    except (OSError, SyntaxError, ValueError):
        return ""
    attribute = bool(first)
    ways: list[Callable[[ast.stmt | ast.expr], bool]] = [
        lambda node: isinstance(node, _ADDS) and _changes(node, last, attribute=attribute),
        lambda node: isinstance(node, ast.Assign) and attribute and _computes(node, last),
        lambda node: isinstance(node, ast.FunctionDef) and node.name == last and bool(node.decorator_list),
        lambda node: isinstance(node, ast.Call) and attribute and _passes_to(node, first.rpartition(".")[2]),
        lambda node: isinstance(node, ast.Assign) and not attribute and _computes(node, last),
    ]
    for way in ways:
        if lines := [node.lineno for node in nodes if way(node)]:
            return f"{Path(file).name}:{min(lines)}"
    return ""


@functools.cache
def _parsed(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


_ADDS = (ast.Call, ast.AugAssign, ast.Assign)


def _changes(node: ast.Call | ast.AugAssign | ast.Assign, name: str, *, attribute: bool) -> bool:
    """Does a statement add to what has this name: `x.append(…)`, `x += …`, `x[…] = …`, `x = f(… x …)`?"""

    def is_it(node: ast.AST) -> bool:
        return _named(node) == name and (not attribute or not isinstance(node, ast.Name))

    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in _CHANGES and is_it(node.func.value)
    if isinstance(node, ast.AugAssign):
        return is_it(node.target)
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and is_it(target.value):
                return True
            if is_it(target) and any(is_it(part) for part in ast.walk(node.value)):
                return True
    return False


def _computes(node: ast.Assign, name: str) -> bool:
    """Is a value computed from others assigned to a variable or attribute of this name: `self.x = a * b`?"""
    given = any(_named(target) == name for target in node.targets if not isinstance(target, ast.Subscript))
    return given and any(isinstance(part, (ast.BinOp, ast.Call)) for part in ast.walk(node.value))


def _passes_to(node: ast.Call, name: str) -> bool:
    """Does a call pass something to what has this name, or to a method of it: `x(a)`, `x.log(a)`?"""
    function = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    return bool(name) and _named(function) == name and bool(node.args or node.keywords)


def _named(node: ast.AST) -> str:
    """The last part of the name of a variable or attribute; "" for anything else."""
    if isinstance(node, ast.Subscript):
        return _named(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
