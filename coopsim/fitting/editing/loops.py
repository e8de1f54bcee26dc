"""Rewrite a training loop to add up the gradients of several batches, where its statements are certain."""

import ast
from collections.abc import Iterator

from coopsim.fitting.editing import texts

#: Calls that belong to the optimizer's step.
_DUE = ("step", "zero_grad", "unscale_", "update", "clip_grad_norm_", "clip_grad_value_", "clip_gradients")
_ONCE = ("step", "zero_grad", "backward")
#: Objects whose `backward` takes the loss.
_MAKE_BACKWARD = ("accelerator", "fabric")
Change = tuple[int, int, str]  #: offsets of the beginning and the end of what is replaced, and by what
_COUNTERS = ("i", "count", "micro_batch")


def adding_up(text: str, times: int) -> str:
    """Return a file's text with a training loop that steps once per `times` batches; "" where that is not certain.

    Certain is the only loop with a backward pass, over anything but a range, whose body has one `backward`, `step` and
    `zero_grad` as statements on lines of their own.

    >>> print(adding_up("for x in data:\\n    loss(x).backward()\\n    o.step()\\n    o.zero_grad()\\n", 4), end="")
    for i, x in enumerate(data):
        (loss(x) / 4).backward()
        if (i + 1) % 4 == 0:
            o.step()
            o.zero_grad()
    >>> adding_up("for _ in range(9):\\n    loss().backward()\\n    o.step()\\n    o.zero_grad()\\n", 4)
    ''
    """
    tree = ast.parse(text)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.For) and _called(node.body, "backward")]
    if len(found) != 1:
        return ""
    loop = found[0]
    header = _header(text, tree, loop)
    if not header or not _is_plain(text, loop):
        return ""
    counter, *changes = header
    backward = _called(loop.body, "backward")[0]
    loss = _loss(backward.value)  # type: ignore[attr-defined]
    if loss is None:
        return ""
    changes.append((*span(text, loss), _divided(text, loss, times)))
    at = loop.body.index(backward)
    first = [s for s in _called(loop.body, "zero_grad") if loop.body.index(s) < at]
    ends = _counted_ends(text, loop, counter, times)
    if ends is None:
        return ""
    changes += ends
    changes += [(*_rows(text, s), "") for s in first]
    groups = list(_groups(loop.body[at + 1 :]))
    if not any(_called(group, "step") for group in groups):
        return ""
    for group in groups:
        begin, end = _rows(text, group[0])[0], _rows(text, group[-1])[1]
        moved = "".join(_moved(text, s) for s in first) if _called(group, "step") else ""
        first = [] if moved else first
        indent = " " * group[0].col_offset
        inside = "".join(f"    {row}" if row.strip() else row for row in texts.rows(text[begin:end]))
        changes.append((begin, end, f"{indent}if ({counter} + 1) % {times} == 0:\n{inside}{moved}"))
    for begin, end, new in sorted(changes, reverse=True):
        text = text[:begin] + new + text[end:]
    return text


def _counted_ends(text: str, loop: ast.For, counter: str, times: int) -> list[Change] | None:
    """Return the changes by which a loop ends after so many steps where it ended after as many batches: `if i == 3:`.

    `counter` is the name that counts batches from 0. None if the loop ends by a count that is not certain.

    >>> text = "for i, x in enumerate(d):\\n    if i == 3:\\n        break\\n    o.step()\\n"
    >>> [new for _, _, new in _counted_ends(text, ast.parse(text).body[0], "i", 4)]
    ['i // 4']
    """
    counted = {n.target.id for n in ast.walk(loop) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    steps = [n.lineno for n in ast.walk(loop) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "step"]
    found: list[Change] = []
    for branch in [n for n in ast.walk(loop) if isinstance(n, ast.If)]:
        if not any(isinstance(n, ast.Break | ast.Return) for s in branch.body for n in ast.walk(s)):
            continue
        names = [n for n in ast.walk(branch.test) if isinstance(n, ast.Name)]
        if any(n.id in counted for n in names):
            return None
        done = branch.lineno > min(steps, default=0)  # the batch counts, too
        new = f"(({counter} + 1) // {times} - 1)" if done else f"{counter} // {times}"
        found += [(*span(text, n), new) for n in names if n.id == counter]
    return found


def _is_plain(text: str, loop: ast.For) -> bool:
    """Is all that concerns the optimizer in statements of the loop's body, on lines of their own, once per batch?"""
    calls = [n for n in ast.walk(loop) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") in _ONCE]
    plain = [s for name in _ONCE for s in _called(loop.body, name)]
    concerned = [*plain, *(s for name in _DUE for s in _called(loop.body, name))]
    rows = all(not text[_rows(text, s)[0] : span(text, s)[0]].strip() and _ends_row(text, s) for s in concerned)
    skips = any(isinstance(n, ast.Continue) for n in ast.walk(loop))
    one = len(_called(loop.body, "backward")) == 1 and _called(loop.body, "zero_grad")
    return bool(one) and len(calls) == len(plain) and rows and not skips and not loop.orelse


def _ends_row(text: str, statement: ast.stmt) -> bool:
    rest = text[span(text, statement)[1] : _rows(text, statement)[1]].strip()
    return not rest or rest.startswith("#")


def _header(text: str, tree: ast.Module, loop: ast.For) -> list:  # type: ignore[type-arg]
    """Return the name of the loop's counter and the changes that introduce it; nothing where not certain."""
    over = loop.iter
    called = over.func.id if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) else ""
    if called == "range":
        return []
    if called == "enumerate":
        target = loop.target
        plain = isinstance(over, ast.Call) and len(over.args) == 1 and not over.keywords
        if plain and isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
            return [target.elts[0].id]
        return []
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    counter = next((name for name in _COUNTERS if name not in names), "")
    if not counter:
        return []
    (begin, end), (start, stop) = span(text, loop.target), span(text, over)
    target_text = text[begin:end]
    if isinstance(loop.target, ast.Tuple) and not target_text.startswith("("):
        target_text = f"({target_text})"
    return [counter, (begin, end, f"{counter}, {target_text}"), (start, stop, f"enumerate({text[start:stop]})")]


def _loss(call: ast.Call) -> ast.expr | None:
    """Return the loss of a `backward` call; None where not certain."""
    assert isinstance(call.func, ast.Attribute)
    owner = call.func.value
    name = getattr(owner, "attr", getattr(owner, "id", ""))
    if name in _MAKE_BACKWARD:
        return call.args[0] if len(call.args) == 1 and not call.keywords else None
    return None if call.args else owner


def _divided(text: str, loss: ast.expr, times: int) -> str:
    begin, end = span(text, loss)
    plain = isinstance(loss, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    old = text[begin:end] if plain else f"({text[begin:end]})"
    return f"({old} / {times})"


def _groups(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Yield runs of adjacent statements that belong to the optimizer's step."""
    group: list[ast.stmt] = []
    for statement in body:
        if any(_called([statement], name) for name in _DUE):
            group.append(statement)
        elif group:
            yield group
            group = []
    if group:
        yield group


def _called(body: list[ast.stmt], name: str) -> list[ast.stmt]:
    """Return the statements that are a call of a function or method of that name."""
    return [
        s
        for s in body
        if isinstance(s, ast.Expr)
        and isinstance(s.value, ast.Call)
        and getattr(s.value.func, "attr", getattr(s.value.func, "id", "")) == name
        and (name != "backward" or isinstance(s.value.func, ast.Attribute))
    ]


def _moved(text: str, statement: ast.stmt) -> str:
    begin, end = _rows(text, statement)
    return "".join(f"    {row}" for row in texts.rows(text[begin:end]))


def _rows(text: str, node: ast.stmt) -> tuple[int, int]:
    """Return the offsets of the beginning of a statement's first line and the end of its last."""
    begin, end = span(text, node)
    stop = text.find("\n", end)
    return text.rfind("\n", 0, begin) + 1, len(text) if stop < 0 else stop + 1


def span(text: str, node: ast.stmt | ast.expr | ast.keyword) -> tuple[int, int]:
    """Return the offsets of a node's beginning and end in the text (ast counts in bytes)."""
    rows = texts.rows(text)

    def offset(line: int, column: int) -> int:
        return sum(map(len, rows[: line - 1])) + len(rows[line - 1].encode()[:column].decode())

    return offset(node.lineno, node.col_offset), offset(node.end_lineno or 1, node.end_col_offset or 0)
