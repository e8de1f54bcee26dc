"""Edit calls in the user's files: other arguments, or another function.

A place is certain if the file has exactly one such call, or loop, there, and its arguments are written out.
"""

import ast
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coopsim.base.types import CoopsimError
from coopsim.fitting.editing import loops, settings, source
from coopsim.fitting.editing import texts as sources


@dataclass(frozen=True)
class Edit:
    """A change to the call of `name` that spans a line of a file; with `times`, to the file's training loop instead.

    arguments: (name, position, new value); position -1 for keywords only; {} in the value stands for the old one.
    dropped: arguments to remove. function: the function to call instead, "" for the same. imports: a line to insert
    before the statement. times: the number of batches whose gradients the loop is to add up. after: the text of a
    statement; the edit inserts the line `inserted` after it, with its indentation, and does nothing else. setting: the
    name and value of a setting that the file has (settings.py).
    """

    file: str
    line: int = 0
    name: str = ""
    arguments: tuple[tuple[str, int, str], ...] = ()
    dropped: tuple[str, ...] = ()
    function: str = ""
    imports: str = ""
    times: int = 1
    after: str = ""
    inserted: str = ""
    setting: tuple[str, str] | None = None


def apply(edits: Sequence[Edit], texts: dict[str, str]) -> None:
    """Apply edits to `texts`, the new texts of files by path; a file that is not there yet is read and added.

    Insertions and then rewrites of loops come last. Raises CoopsimError where a place is not certain.
    """
    for edit in sorted(dict.fromkeys(edits), key=lambda one: (one.times > 1, bool(one.after))):
        text = texts.get(edit.file) or sources.read(edit.file)
        if edit.setting:
            new = settings.changed(edit.file, text, *edit.setting)
        elif edit.times > 1:
            new = loops.adding_up(text, edit.times)
        else:
            new = source.inserted(text, edit.after, edit.inserted) if edit.after else _changed(text, edit)
        if not new:
            what = f"make the {edit.name}" if edit.name else "have a loop whose lines are certain"
            what = f"set {edit.setting[0]}" if edit.setting else what
            raise CoopsimError(f"no patch: {Path(edit.file).name or 'the script'} does not {what} in one certain place")
        texts[edit.file] = new


def lines(edits: Sequence[Edit]) -> tuple[str, ...]:
    """Return the lines that edits add to the files, with each file's common indentation removed; no file is changed.

    Raises CoopsimError, as `apply`.
    """
    texts: dict[str, str] = {}
    apply(edits, texts)
    found = []
    for file, text in texts.items():
        old, new = sources.read(file).splitlines(), text.splitlines()
        added = [row[2:] for row in difflib.ndiff(old, new) if row.startswith("+ ")]
        indent = min((len(row) - len(row.lstrip()) for row in added if row.strip()), default=0)
        found += [row[indent:] for row in added]
    return tuple(found)


def calls(edits: Sequence[Edit]) -> tuple[str, ...]:
    """Return the lines of each call as edited, with the import that it needs before it, each once; no file is changed.

    For edits that remove arguments, which `lines` would not show. Raises CoopsimError, as `apply`.
    """
    apply(edits, {})
    found = []
    for edit in edits:
        rows = _call_with(source.call_text(edit.file, edit.line, edit.name), edit).splitlines()
        indent = len(rows[-1]) - len(rows[-1].lstrip())  # of the closing parenthesis
        found += [*([edit.imports] if edit.imports else []), rows[0], *(row[indent:] for row in rows[1:])]
    return tuple(dict.fromkeys(found))


def abbreviated(edit: Edit) -> str:
    """Return an edit's call with its new arguments only: `TrainingArguments(..., optim="adafactor")`.

    It is shown where the user's files do not have the call in one certain place.
    """
    said = ", ".join(f"{name}={value.format('...')}" for name, _, value in edit.arguments)
    return f"{edit.function or edit.name}(..., {said})"


def _changed(text: str, edit: Edit) -> str:
    """Return the file's text with the call edited; "" where its place is not certain."""
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
    """Return a call's text with an edit; "" where an argument's value is not certain."""
    for name in edit.dropped:
        call = _without(call, name)
    for name, place, value in edit.arguments:
        call = _with_value(call, name, place, value)
    return edit.function + call[len(_function(call)) :] if call and edit.function else call


def _start(text: str, edit: Edit, old: str) -> int:
    """Return the offset of the call in a text that other edits may have changed; -1 if not certain."""
    if old and text.count(old) == 1:
        return text.find(old)
    if not old or text.count("\n") != sources.read(edit.file).count("\n"):
        return -1
    found = source.call_in(text, edit.line, edit.name)  # no line was added: it is where it was
    return loops.span(text, found)[0] if found else -1


def _end(text: str, start: int) -> int:
    """Return the end of the call that begins at an offset: the first parenthesis that makes it an expression."""
    for close in re.finditer(r"\)", text[start:]):
        try:
            if isinstance(ast.parse(text[start : start + close.end()], mode="eval").body, ast.Call):
                return start + close.end()
        except SyntaxError:
            continue
    return start


def _with_value(call: str, name: str, place: int, value: str) -> str:
    """Return a call's text with another value of an argument; "" if its value is not certain."""
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
    begin, end = loops.span(call, old)
    return call[:begin] + _value(call[begin:end], old, value) + call[end:]


def _value(old: str, node: ast.expr, value: str) -> str:
    """Return the new value: a number if the old one is, else an expression that contains the old one.

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
    """Return a call's text without a keyword argument."""
    tree = _call(call)
    found = next((k for k in tree.keywords if k.arg == name), None) if tree else None
    if found is None:
        return call
    begin, end = loops.span(call, found)
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
    """Return a text with a line inserted before the statement at an offset; "" if that does not begin a line."""
    number = text[:start].count("\n") + 1
    inside = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt) and node.lineno <= number <= (node.end_lineno or node.lineno)
    ]
    statement = max(inside, key=lambda node: node.lineno)
    rows = sources.rows(text)
    indent = rows[statement.lineno - 1][: statement.col_offset]
    if indent.strip():
        return ""
    rows.insert(statement.lineno - 1, f"{indent}{line}\n")
    return "".join(rows)
