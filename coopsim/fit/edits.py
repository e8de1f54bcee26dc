"""Calls in the user's files with other arguments, or of another function: what a remedy changes there."""

import ast
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coopsim.fit import loops, source
from coopsim.types import CoopsimError


@dataclass(frozen=True)
class Edit:
    """A call of `name` that a line of a file has, and what becomes of it.

    arguments: each with its place among the positional ones (-1: it is none of them) and its new value, in which {}
    stands for the old one. dropped: arguments that go. function: what is called in its place. imports: a line before
    it. `times` is of the file's training loop instead: it adds up the gradients of so many batches.
    """

    file: str
    line: int = 0
    name: str = ""
    arguments: tuple[tuple[str, int, str], ...] = ()
    dropped: tuple[str, ...] = ()
    function: str = ""
    imports: str = ""
    times: int = 1

    @classmethod
    def read(cls, found: Mapping[str, object]) -> "Edit":
        """From JSON."""
        arguments = tuple((str(n), int(i), str(v)) for n, i, v in found["arguments"])  # type: ignore[attr-defined]
        return cls(**{**found, "arguments": arguments, "dropped": tuple(found["dropped"])})  # type: ignore[arg-type]


def apply(edits: Sequence[Edit], texts: dict[str, str]) -> None:
    """Change the texts of files. Raises CoopsimError where a place is not certain."""
    for edit in sorted(dict.fromkeys(edits), key=lambda one: one.times > 1):
        text = texts.get(edit.file) or _read(edit.file)
        new = loops.adding_up(text, edit.times) if edit.times > 1 else _changed(text, edit)
        if not new:
            what = f"make the {edit.name}" if edit.name else "have a loop whose lines are certain"
            raise CoopsimError(f"no patch: {Path(edit.file).name or 'the script'} does not {what} in one certain place")
        texts[edit.file] = new


def lines(edits: Sequence[Edit]) -> tuple[str, ...]:
    """The lines that come of the edits, without what they have in common before them. Raises CoopsimError."""
    texts: dict[str, str] = {}
    apply(edits, texts)
    found = []
    for file, text in texts.items():
        old, new = _read(file).splitlines(), text.splitlines()
        added = [row[2:] for row in difflib.ndiff(old, new) if row.startswith("+ ")]
        indent = min((len(row) - len(row.lstrip()) for row in added if row.strip()), default=0)
        found += [row[indent:] for row in added]
    return tuple(found)


def calls(edits: Sequence[Edit]) -> tuple[str, ...]:
    """The calls as they are then, where what goes matters as much as what comes. Raises CoopsimError."""
    apply(edits, {})
    found = []
    for edit in edits:
        rows = _call_with(source.call_text(edit.file, edit.line, edit.name), edit).splitlines()
        indent = len(rows[-1]) - len(rows[-1].lstrip())  # of the closing parenthesis
        found += [*([edit.imports] if edit.imports else []), rows[0], *(row[indent:] for row in rows[1:])]
    return tuple(dict.fromkeys(found))


def abbreviated(edit: Edit) -> str:
    """What a call that is not in the user's file would have: TrainingArguments(..., optim="adafactor")."""
    said = ", ".join(f"{name}={value.format('...')}" for name, _, value in edit.arguments)
    return f"{edit.function or edit.name}(..., {said})"


def _changed(text: str, edit: Edit) -> str:
    """The whole text with one call changed; "" where that is not certain."""
    if not edit.file:
        return ""
    old = source.call_text(edit.file, edit.line, edit.name)
    start = _start(text, edit, old)
    if start < 0:
        return ""
    call = text[start : _end(text, start)]
    new = _call_with(call, edit)
    if not new:
        return ""
    text = text[:start] + new + text[start + len(call) :]
    return _before(text, start, edit.imports) if edit.imports else text


def _call_with(call: str, edit: Edit) -> str:
    """A call's text with what the edit says; "" where that is not certain."""
    for name in edit.dropped:
        call = _without(call, name)
    for name, place, value in edit.arguments:
        call = _with_value(call, name, place, value)
    return edit.function + call[len(_function(call)) :] if call and edit.function else call


def _start(text: str, edit: Edit, old: str) -> int:
    """Where the call is in a text that other edits may have changed; -1 if that is not certain."""
    if old and text.count(old) == 1:
        return text.find(old)
    if not old or text.count("\n") != _read(edit.file).count("\n"):
        return -1
    found = source.call_in(text, edit.line, edit.name)  # no line was added: it is where it was
    return _offset(text, found.lineno, found.col_offset) if found else -1


def _end(text: str, start: int) -> int:
    """Where the call that begins there ends: the first closing parenthesis with which it is an expression."""
    for close in re.finditer(r"\)", text[start:]):
        try:
            if isinstance(ast.parse(text[start : start + close.end()], mode="eval").body, ast.Call):
                return start + close.end()
        except SyntaxError:
            continue
    return start


def _with_value(call: str, name: str, place: int, value: str) -> str:
    """A call's text with a value for an argument; "" if it is not certain which it has."""
    tree = _call(call)
    if tree is None:
        return ""
    given = {keyword.arg: keyword.value for keyword in tree.keywords}
    old = given.get(name)
    if old is None and 0 <= place < len(tree.args):
        old = tree.args[place]
    uncertain = None in given or any(isinstance(a, ast.Starred) for a in tree.args)
    if uncertain and old not in given.values():
        return ""
    if old is None:
        return "" if "{}" in value else source.insert_argument(call, f"{name}={value}")
    begin, end = _offset(call, old.lineno, old.col_offset), _offset(call, old.end_lineno or 1, old.end_col_offset or 0)
    return call[:begin] + _value(call[begin:end], old, value) + call[end:]


def _value(old: str, node: ast.expr, value: str) -> str:
    """The new value: of a number a number, else an expression with the old one in it.

    >>> _value("64", ast.parse("64", mode="eval").body, "{} // 4")
    '16'
    >>> _value("a + b", ast.parse("a + b", mode="eval").body, "{} // 4")
    '(a + b) // 4'
    """
    if "{}" not in value:
        return value
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        operator, other = value.removeprefix("{} ").split()
        return str(node.value // int(other) if operator == "//" else node.value * int(other))
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return value.format(old if plain else f"({old})")


def _without(call: str, name: str) -> str:
    """A call's text without an argument that it has by name."""
    tree = _call(call)
    found = next((k for k in tree.keywords if k.arg == name), None) if tree else None
    if found is None:
        return call
    begin = _offset(call, found.lineno, found.col_offset)
    end = _offset(call, found.end_lineno or 1, found.end_col_offset or 0)
    after = re.match(r"\s*,\s*", call[end:])
    if after and not call[end + after.end() :].startswith(")"):
        return call[:begin] + call[end + after.end() :]
    before = call[:begin].rstrip()
    return before + call[end:].removeprefix(",") if after else before.removesuffix(",") + call[end:]


def _function(call: str) -> str:
    tree = _call(call)
    return (ast.get_source_segment(call, tree.func) or "") if tree else ""


def _call(call: str) -> ast.Call | None:
    if not call:
        return None
    found = ast.parse(call, mode="eval").body
    return found if isinstance(found, ast.Call) else None


def _before(text: str, start: int, line: str) -> str:
    """With a line before the statement at a place; "" if the statement has no line of its own."""
    number = text[:start].count("\n") + 1
    inside = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt) and node.lineno <= number <= (node.end_lineno or node.lineno)
    ]
    statement = max(inside, key=lambda node: node.lineno)
    rows = text.splitlines(keepends=True)
    indent = rows[statement.lineno - 1][: statement.col_offset]
    if indent.strip():
        return ""
    rows.insert(statement.lineno - 1, f"{indent}{line}\n")
    return "".join(rows)


def _offset(text: str, line: int, column: int) -> int:
    """Of a place that ast gives, whose columns are bytes."""
    rows: Iterator[str] = iter(text.splitlines(keepends=True))
    before = sum(len(next(rows)) for _ in range(line - 1))
    return before + len(next(rows, "").encode()[:column].decode())


def _read(file: str) -> str:
    return Path(file).read_text(encoding="utf-8") if file and Path(file).is_file() else ""
