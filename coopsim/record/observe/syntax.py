"""How a script branches on a value that it reads: the statement that the reading line is of, and the loop around it.

The script's source is parsed for that, so nothing is known of code without source.
"""

import ast
import dis
import itertools
import linecache
from dataclasses import dataclass
from functools import cache
from types import CodeType, FrameType
from typing import Literal

Kind = Literal["while", "raise", "break", "exit", "guard", "assert"]
_Loop = ast.While | ast.For | ast.AsyncFor
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
_JUMPS = ("POP_JUMP", "JUMP_IF", "TO_BOOL", "UNARY_NOT")  #: instructions that ask for a truth value
_ENDLESS = ("count", "cycle", "repeat")  #: of itertools


@dataclass(frozen=True)
class Use:
    """What a statement does with a value that it reads.

    kind: "while": it tests the value to go on. "assert": it asserts it. For an `if` that tests it: "raise" if its body
    ends with an error, "break" with a break, "exit" with a return or continue, "guard" with anything else. If it
    assigns the value, within a loop, to a variable by which the loop is left: "while" if the loop's own test reads it,
    else "raise" or "break" (or return), as the `if` that reads it ends. negated: the test holds where the value is
    false. line: the number of the line at which the loop begins that the value can end; 0 if there is none. alone:
    nothing else ends that loop.
    """

    kind: Kind
    negated: bool
    line: int = 0
    alone: bool = False


def use(frame: FrameType) -> Use | None:
    """Return what the statement that a frame is at does with the value that it is reading.

    None if it is none of the kinds of Use, or if the source is not found.
    """
    return _use(frame.f_code, *_place(frame))


def in_loop(frame: FrameType) -> bool:
    """Return whether the line that a frame is at is in a loop, `while` or `for`, of its own function.

    False if the source is not found.
    """
    return any(isinstance(node, _Loop) for node in _path(frame.f_code.co_filename, *_place(frame)))


def _place(frame: FrameType) -> tuple[int, tuple[int, int] | None]:
    """Return the line and the columns of the expression whose value is read.

    A jump has the place of the whole test; what is before it made the value.
    """
    code, at = frame.f_code, frame.f_lasti // 2
    if dis.opname[code.co_code[2 * at]].startswith(_JUMPS):
        at -= 1
        while at and dis.opname[code.co_code[2 * at]] == "EXTENDED_ARG":
            at -= 1
    line, _, start, end = next(itertools.islice(code.co_positions(), at, None))
    columns = (start, end) if start is not None and end is not None else None
    return line or frame.f_lineno, columns


@cache
def _use(code: CodeType, line: int, columns: tuple[int, int] | None) -> Use | None:
    path = _path(code.co_filename, line, columns)
    if not path:
        return None
    statement = path[-1]
    loop = next((node for node in reversed(path) if isinstance(node, _Loop)), None)
    if isinstance(statement, ast.While) and _covers(statement.test, line):
        return Use("while", _negated(statement.test, line, columns), statement.lineno, _alone(statement, None))
    if isinstance(statement, ast.If) and _covers(statement.test, line):
        negated, leaves = _negated(statement.test, line, columns), statement.body[-1]
        if _raises(leaves):
            return Use("raise", negated)
        kind: Kind = "guard"
        if isinstance(leaves, ast.Break | ast.Return | ast.Continue):
            kind = "break" if isinstance(leaves, ast.Break) else "exit"
        ends = isinstance(leaves, ast.Break | ast.Return) and loop is not None and _may_be_endless(loop)
        if ends and loop is not None:
            return Use(kind, negated, loop.lineno, _alone(loop, statement))
        return Use(kind, negated)
    if isinstance(statement, ast.Assert):
        return Use("assert", _negated(statement.test, line, columns))
    return _assigned(statement, loop) if isinstance(statement, ast.Assign) and loop is not None else None


def _assigned(statement: ast.Assign, loop: _Loop) -> Use | None:
    """Return the use of a value that is assigned to a name by which a loop is left."""
    names = {ast.unparse(target) for target in statement.targets}
    for leaving in (None, *_leaving(loop)):
        test = leaving.test if leaving is not None else getattr(loop, "test", None)
        if test is None:
            continue
        for part in ast.walk(test):
            if isinstance(part, ast.expr) and ast.unparse(part) in names:
                negated = _negated(test, part.lineno, (part.col_offset, part.end_col_offset or 0))
                if leaving is not None and _raises(leaving.body[-1]):
                    return Use("raise", negated)
                line = loop.lineno if _may_be_endless(loop) else 0
                return Use("while" if leaving is None else "break", negated, line, alone=_alone(loop, leaving))
    return None


@cache
def _path(filename: str, line: int, columns: tuple[int, int] | None) -> tuple[ast.stmt, ...]:
    """Return the statements around a place, the outermost first, from the innermost function on."""
    tree = _parsed(filename)
    found: list[ast.stmt] = []
    body: list[ast.stmt] = tree.body if tree is not None else []
    while True:
        inside = next((node for node in body if _holds(node, line, columns)), None)
        if inside is None:
            return tuple(found)
        found = [] if isinstance(inside, _Function) else [*found, inside]
        body = _inner(inside)


def _holds(node: ast.stmt, line: int, columns: tuple[int, int] | None) -> bool:
    end = node.end_lineno or node.lineno
    if columns is None or not node.lineno <= line <= end:
        return node.lineno <= line <= end
    before = line == node.lineno and columns[0] < node.col_offset
    behind = line == end and columns[1] > (node.end_col_offset or 0)
    return not before and not behind


def _inner(node: ast.stmt) -> list[ast.stmt]:
    """Return the statements that another holds itself."""
    parts = [node, *getattr(node, "handlers", []), *getattr(node, "cases", [])]
    bodies = (getattr(part, name, None) for part in parts for name in ("body", "orelse", "finalbody"))
    return [inner for body in bodies if isinstance(body, list) for inner in body]


@cache
def _parsed(filename: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return None


def _covers(node: ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _negated(test: ast.expr, line: int, columns: tuple[int, int] | None) -> bool:
    """Return whether a test negates the value that is read in it an odd number of times."""
    odd, at = False, [(test, False)]
    for node, negated in at:  # grows
        if (node.lineno, (node.col_offset, node.end_col_offset)) == (line, columns):
            return negated
        inverts = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        at += [(child, negated ^ inverts) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        odd, test = not odd, test.operand
    return odd


def _raises(statement: ast.stmt) -> bool:
    """Return whether a statement ends in an error: `raise`, `assert False`, `torch._assert(False, …)`."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and statement.value.args:
        called, test = ast.unparse(statement.value.func), statement.value.args[0]
        return called.endswith("_assert") and isinstance(test, ast.Constant) and test.value is False
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant) and statement.test.value is False
    return isinstance(statement, ast.Raise)


def _may_be_endless(loop: _Loop) -> bool:
    """Return whether a loop does not end by itself: any `while`, and `for` over endless iterators."""
    if isinstance(loop, ast.While):
        return True
    called = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    return isinstance(called, ast.Name | ast.Attribute) and ast.unparse(called).split(".")[-1] in _ENDLESS


def _leaving(loop: _Loop) -> list[ast.If]:
    """Return the `if`s in a loop that leave it."""
    ifs = (node for node in ast.walk(loop) if isinstance(node, ast.If))
    return [node for node in ifs if isinstance(node.body[-1], ast.Break | ast.Return | ast.Raise)]


def _alone(loop: _Loop, leaving: ast.If | None) -> bool:
    """Return whether nothing else ends a loop. Of `a and b`, the other may."""
    test = leaving.test if leaving is not None else getattr(loop, "test", None)
    if test is None or any(isinstance(node, ast.BoolOp) for node in ast.walk(test)):
        return False
    if leaving is not None and isinstance(loop, ast.While) and not isinstance(loop.test, ast.Constant):
        return False
    exits = [node for node in ast.walk(loop) if isinstance(node, ast.Break | ast.Return)]
    return len(exits) == (leaving is not None)
