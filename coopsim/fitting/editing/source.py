"""Find and change calls and assignments in the user's source, where they are certain.

A call is certain if it is the only one of its function's name that spans a line. Lines are counted from 1; a file that
does not exist counts as empty.
"""

import ast
import linecache

from coopsim.fitting.editing import texts
from coopsim.fitting.editing.loops import span

#: Names of functions that copy a model.
_COPIES = ("deepcopy", "copy", "AveragedModel", "EMA", "ModelEMA", "ModelEmaV2", "ModelEmaV3", "create_reference_model")


def line(file: str, number: int) -> str:
    """Return line `number` of a file, counted from 1, without its indentation; "" if there is none."""
    return linecache.getline(file, number).strip()


def indent(file: str, number: int) -> str:
    """Return the indentation of line `number` of a file, counted from 1; "" if there is none."""
    text = linecache.getline(file, number)
    return text[: len(text) - len(text.lstrip())]


def insert_argument(call: str, argument: str) -> str:
    """Return a call's text with an argument added before its closing parenthesis, on a line of its own if others are.

    >>> insert_argument("SGD(p, lr=0.1)", "foreach=False"), insert_argument("f(\\n    a,\\n)", "b=1")
    ('SGD(p, lr=0.1, foreach=False)', 'f(\\n    a,\\n    b=1,\\n)')
    """
    inside = call[:-1]
    body = inside.rstrip()
    if body.endswith(",") and "\n" in inside[len(body) :]:  # one to a row
        last = body.splitlines()[-1]
        return f"{body}\n{last[: len(last) - len(last.lstrip())]}{argument},{inside[len(body) :]})"
    comma = "" if body.endswith("(") else " " if body.endswith(",") else ", "
    return f"{body}{comma}{argument}{inside[len(body) :]})"


def call_text(file: str, number: int, name: str) -> str:
    """Return the text of the call of `name` that spans line `number` of a file; "" if there is not exactly one."""
    found = call_at(file, number, name)
    return (ast.get_source_segment(texts.read(file), found) or "") if found else ""


def with_value(call: str, argument: str, value: str, *, member: bool = False) -> str:
    """Return a call's text with another value of an argument, which is added if need be; "" if that is not certain.

    With `member`, the argument must be there and be an attribute of an object, of which it gets attribute `value`.

    >>> with_value("f(m, limit=False)", "limit", "True"), with_value("f(m)", "limit", "True")
    ('f(m, limit=True)', 'f(m, limit=True)')
    >>> with_value("f(m, by=Strategy.A)", "by", "B", member=True), with_value("f(m, **options)", "limit", "True")
    ('f(m, by=Strategy.B)', '')
    """
    tree = ast.parse(call, mode="eval").body
    if not isinstance(tree, ast.Call):
        return ""
    given = {keyword.arg: keyword.value for keyword in tree.keywords}
    old = given.get(argument)
    if old is None:
        return "" if member or None in given or len(tree.args) > 1 else insert_argument(call, f"{argument}={value}")
    if member and not isinstance(old, ast.Attribute):
        return ""
    text = f"{ast.unparse(old.value)}.{value}" if isinstance(old, ast.Attribute) and member else value
    begin, end = span(call, old)
    return call[:begin] + text + call[end:]


def call_at(file: str, number: int, name: str) -> ast.Call | None:
    """Return the call of a function or method `name` that spans line `number` of a file.

    None unless there is exactly one.
    """
    return call_in(texts.read(file), number, name)


def call_in(text: str, number: int, name: str) -> ast.Call | None:
    """Return the call of a function or method `name` that spans line `number` of a text.

    None unless there is exactly one.
    """
    found = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and node.lineno <= number <= (node.end_lineno or node.lineno)
        and getattr(node.func, "attr", getattr(node.func, "id", "")) == name
    ]
    return found[0] if len(found) == 1 else None


def after_assignment(file: str, name: str) -> tuple[int, str] | None:
    """Return the number of the line after which the model `name` is made, and its indentation; None if not certain.

    It is the last assignment to the name, if all of them are top-level statements of one function, or of the file, and
    so under no condition and in no loop. If the model is copied there afterwards, it is the last copy: the copies are
    to remain unchanged, and a copy of an object whose method was replaced would call the original's method.
    """
    scopes = [node for node in ast.walk(_tree(file)) if isinstance(node, ast.FunctionDef | ast.Module)]
    scopes += [n for n in ast.walk(_tree(file)) if _is_main(n)]  # type: ignore[misc]
    every = [n for n in ast.walk(_tree(file)) if _assigns(n, name)]
    for scope in scopes:
        inside = [n for n in scope.body if _assigns(n, name)]
        plain = all(isinstance(n, ast.Assign | ast.AnnAssign) for n in inside)
        if inside and plain and len(inside) == len(every):
            later = scope.body[scope.body.index(inside[-1]) :]
            last = [n for n in later if n is inside[-1] or _copies(n, name)][-1]
            return _after(scope, last, texts.rows(texts.read(file)))
    return None


def last_use(file: str, name: str) -> str:
    """Return the text of the last statement with a variable, in the body where it is assigned; "" if not certain.

    Certain is a name that no function within refers to.
    """
    tree = _tree(file)
    uses = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name]
    scopes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Module) or _is_main(n)]
    for scope in scopes:
        body = scope.body  # type: ignore[attr-defined]
        inside = [s for s in body if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(s))]
        if not inside or not any(_assigns(s, name) for s in inside):
            continue
        if any(isinstance(s, ast.FunctionDef | ast.ClassDef) for s in inside):
            return ""
        there = sum(isinstance(n, ast.Name) and n.id == name for s in inside for n in ast.walk(s))
        if there != len(uses) and not isinstance(scope, ast.FunctionDef):
            return ""
        return ast.get_source_segment(texts.read(file), inside[-1]) or ""
    return ""


def assigned_at(file: str, number: int) -> tuple[str, str]:
    """Return the text of the assignment to one target that begins at line `number`, and the target's; else "" twice."""
    found = [node for node in ast.walk(_tree(file)) if isinstance(node, ast.Assign) and node.lineno == number]
    if len(found) != 1 or len(found[0].targets) > 1 or isinstance(found[0].targets[0], ast.Tuple | ast.List):
        return "", ""
    text = texts.read(file)
    return ast.get_source_segment(text, found[0]) or "", ast.get_source_segment(text, found[0].targets[0]) or ""


def inserted(text: str, statement: str, line: str) -> str:
    """Return a text with a line inserted after a statement, with its indentation; "" unless it is there once, alone.

    >>> inserted("if a:\\n    f(\\n        x)\\n", "f(\\n        x)", "del x")
    'if a:\\n    f(\\n        x)\\n    del x\\n'
    """
    if text.count(statement) != 1:
        return ""
    at = text.index(statement)
    begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at + len(statement))
    end = len(text) if end < 0 else end
    rest = text[at + len(statement) : end].strip()
    if text[begin:at].strip() or (rest and not rest.startswith("#")):
        return ""
    return f"{text[:end]}\n{text[begin:at]}{line}{text[end:]}"


def imports(file: str, name: str) -> bool:
    """Return whether a file imports a module under its own name: `import torch`, not `import torch as t`."""
    found = [node for node in ast.walk(_tree(file)) if isinstance(node, ast.Import)]
    return any(alias.name == name and alias.asname is None for node in found for alias in node.names)


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("__name__ == '__main__'",)


def _assigns(node: ast.AST, name: str) -> bool:
    """Return whether a node binds a name."""
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


def _after(scope: ast.FunctionDef | ast.Module, last: ast.stmt, lines: list[str]) -> tuple[int, str] | None:
    """Return the last line of a statement, and of others that begin on its lines, with the statement's indentation."""
    first = lines[last.lineno - 1]
    if not isinstance(scope, ast.Module) and scope.lineno == last.lineno:
        return None
    end = last.end_lineno or last.lineno
    for node in scope.body:
        if node.lineno <= end:
            end = max(end, node.end_lineno or node.lineno)
    return end, first[: len(first) - len(first.lstrip())]


def _copies(node: ast.AST, name: str) -> bool:
    """Return whether a statement is an assignment that copies the object `name`."""
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call)] if isinstance(node, ast.Assign) else []
    return any(
        getattr(call.func, "attr", getattr(call.func, "id", "")) in _COPIES
        and any(isinstance(n, ast.Name) and n.id == name for argument in call.args for n in ast.walk(argument))
        for call in calls
    )


def _tree(file: str) -> ast.Module:
    return ast.parse(texts.read(file))
