"""The user's source: the lines that a remedy changes, where they are certain."""

import ast
import linecache
from pathlib import Path


def line(file: str, number: int) -> str:
    """A line as it is, without its indentation."""
    return linecache.getline(file, number).strip()


def with_argument(file: str, number: int, name: str, argument: str) -> str:
    """The call of `name` at a line, with an argument more; "" if it is not there, or there are several."""
    found = call_at(file, number, name)
    if found is None:
        return ""
    text = ast.get_source_segment(_text(file), found) or ""
    return insert_argument(text, argument)


def insert_argument(call: str, argument: str) -> str:
    """Before the closing parenthesis of a call's text.

    >>> insert_argument("SGD(p, lr=0.1)", "foreach=False"), insert_argument("f(\\n    a,\\n)", "b=1")
    ('SGD(p, lr=0.1, foreach=False)', 'f(\\n    a, b=1\\n)')
    """
    inside = call[:-1]
    body = inside.rstrip()
    comma = "" if body.endswith("(") else " " if body.endswith(",") else ", "
    return f"{body}{comma}{argument}{inside[len(body) :]})"


def call_at(file: str, number: int, name: str) -> ast.Call | None:
    """The only call of something called `name` that spans a line."""
    found = [
        node
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.Call)
        and node.lineno <= number <= (node.end_lineno or node.lineno)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) == name
    ]
    return found[0] if len(found) == 1 else None


def after_assignment(file: str, name: str) -> tuple[int, str] | None:
    """The line after which a model called `name` is made, and its indentation.

    That is after the last assignment to the name, if all of them are statements of one and the same function, or of
    the file, and under no condition and in no loop.
    """
    scopes = [node for node in ast.walk(_tree(file)) if isinstance(node, ast.FunctionDef | ast.Module)]
    scopes += [n for n in ast.walk(_tree(file)) if _is_main(n)]  # type: ignore[misc]
    every = [n for n in ast.walk(_tree(file)) if _assigns(n, name)]
    for scope in scopes:
        inside = [n for n in scope.body if _assigns(n, name)]
        plain = all(isinstance(n, ast.Assign | ast.AnnAssign) for n in inside)
        if inside and plain and len(inside) == len(every):
            last = inside[-1]
            return last.end_lineno or last.lineno, " " * last.col_offset
    return None


def imports(file: str, name: str) -> bool:
    """Does a file import a module by its plain name?"""
    found = [node for node in ast.walk(_tree(file)) if isinstance(node, ast.Import)]
    return any(alias.name == name and alias.asname is None for node in found for alias in node.names)


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("__name__ == '__main__'",)


def _assigns(node: ast.AST, name: str) -> bool:
    """Does a statement give a name a value?"""
    if isinstance(node, ast.Assign):
        targets = [t for target in node.targets for t in ast.walk(target)]
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For | ast.NamedExpr):
        targets = list(ast.walk(node.target))
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        targets = list(ast.walk(node.optional_vars))
    elif isinstance(node, ast.Import | ast.ImportFrom):
        return any((alias.asname or alias.name) == name for alias in node.names)
    else:
        return False
    return any(isinstance(t, ast.Name) and t.id == name and isinstance(t.ctx, ast.Store) for t in targets)


def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8") if file and Path(file).is_file() else ""


def _tree(file: str) -> ast.Module:
    return ast.parse(_text(file))
