"""Find the place in a program that runs: the innermost line of the user's own code, and not of a library's.

The line of a file that changes a variable: what a user has to look at, found in the source alone.
"""

import ast
import functools
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType

from coopsim.base.files import cache_folder

_LIBRARIES = tuple(
    f"{folder}/"
    for folder in {
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        str(Path(__file__).parents[2]),
        str(cache_folder()),
    }
)

#: Folders of libraries of any Python: a virtual environment may share those of another.
_PACKAGES = ("/site-packages/", "/dist-packages/")


def here() -> str:
    """Return the file's name and line ("train.py:12") of the innermost frame of the user's code that is running.

    It is sought in this thread, then in the main one; "" if neither has any.
    """
    own = _own(sys._getframe(1))
    if own or threading.current_thread() is threading.main_thread():
        return own
    # autograd's threads have no frames of the user's; the main thread waits for them
    return _own(sys._current_frames().get(threading.main_thread().ident or 0))


def _own(frame: FrameType | None) -> str:
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return f"{_shown(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def find_program() -> None:
    """See whether the main module only calls a package, which then is the program: its files count as the user's.

    To be called while the program trains. The main module is such a stub if it has no functions and classes of its own,
    and no torch, and no other code of the user's is under way.
    """
    global _program
    main, inner = sys.modules["__main__"], None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_own(frame.f_code.co_filename):
        inner, frame = frame, frame.f_back
    own = [value for value in vars(main).values() if getattr(value, "__module__", "") == "__main__"]
    if frame is None or inner is None or frame.f_globals is not vars(main) or own or "torch" in vars(main):
        return
    before, found, name = inner.f_code.co_filename.rpartition("/site-packages/")
    if found:
        package, slash, _ = name.partition("/")
        _program = f"{before}{found}{package}{slash}"


_program = ""  #: the beginning of the paths of the files of the package that a console script started


def root_of(error: BaseException) -> BaseException:
    """Return the innermost error that errors of torch.compile wrap, or else the error itself.

    The outer ones say which backend failed, but not why.
    """
    while isinstance(inner := getattr(error, "inner_exception", None), BaseException):
        error = inner
    return error


def of_error(error: BaseException) -> str:
    """Return the file's name and line ("train.py:12") of the innermost frame of the user's in an error's traceback.

    Of a SyntaxError, the place of the fault. "" if there is none.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}"
    return _last(traceback.extract_tb(error.__traceback__))


def functions_of(error: BaseException) -> list[tuple[str, int, int]]:
    """Return (name of the file, first line, line that was running) of the user's functions in an error's traceback."""
    return [
        (Path(frame.f_code.co_filename).name, frame.f_code.co_firstlineno, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if is_own(frame.f_code.co_filename)
    ]


def _last(frames: Iterable[traceback.FrameSummary]) -> str:
    own = [f for f in frames if is_own(f.filename)]
    return f"{_shown(own[-1].filename)}:{own[-1].lineno}" if own else ""


def _shown(filename: str) -> str:
    """Return how a file is named: by its name, or by its path within the package that a console script started."""
    if _program and filename.startswith(_program):
        return filename.rpartition("/site-packages/")[2]
    return Path(filename).name


def is_own(filename: str) -> bool:
    """Return whether a file, by its path, is the user's: not a library's, not coopsim's, and not generated code.

    If a console script started the program, as `yolo` does, the package that it calls is the user's (find_program).
    """
    if _program and filename.startswith(_program):
        return True
    return not (filename.startswith(("<", *_LIBRARIES)) or any(folder in filename for folder in _PACKAGES))


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
            return f"{_shown(file)}:{min(lines)}"
    return ""


@functools.cache
def _parsed(file: str) -> ast.Module:
    return ast.parse(Path(file).read_bytes())


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
