"""Find the place in a program that runs: the innermost line of the user's own code, and not of a library's."""

import sys
import sysconfig
import threading
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from coopsim.phantom.build import cache_folder

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
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


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
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""


def is_own(filename: str) -> bool:
    """Return whether a file, by its path, is the user's: not a library's, not coopsim's, and not generated code."""
    return not (filename.startswith(("<", *_LIBRARIES)) or any(folder in filename for folder in _PACKAGES))
