"""Choose the line of a stack to show to the user."""

import re
from functools import cache
from pathlib import PurePath

from coopsim.trace.snapshot.model import StackFrame

#: Parts of paths by which files of libraries are recognized.
_LIBRARIES = ("site-packages/", "dist-packages/", "/lib/python")
#: The last three were folders of 0.2.
_OURS = tuple(f"/coopsim/{name}/" for name in ("record", "run", "capture", "observe", "script"))
#: C++ frames, which PyTorch's snapshots have by default: a node of a backward pass, and an op.
_NODE = re.compile(r"(?:^|::)(\w+Backward\w*)::apply\(")
_OP = re.compile(r"(?:^| )at::_ops::(\w+)::")


def is_own(frame: StackFrame) -> bool:
    """Return whether a frame is Python code of the user's: in no folder of a library."""
    return is_python(frame) and not any(part in frame.file for part in (*_LIBRARIES, *_OURS))


@cache
def place(frames: tuple[StackFrame, ...]) -> str:
    """Return the innermost Python line of the user's own, as "file:line function".

    If there is none, as in the threads of a backward pass: the autograd node that ran and the op that it called;
    without these, the innermost line of a library; "" if the stack has no Python line either.
    """
    python = [f for f in frames if is_python(f) and not any(part in f.file for part in _OURS)]
    own = next((f for f in python if not any(part in f.file for part in _LIBRARIES)), None)
    line = own or (python[0] if python else None)
    ran = "" if own else _backward(frames)
    if ran or line is None:
        return ran
    file = PurePath(line.file).name
    return f"{file}:{line.line} {line.name}" if line.line else f"{file} {line.name}"  # the line is not known


def is_python(frame: StackFrame) -> bool:
    """Return whether a frame is Python code."""
    return frame.file.endswith(".py") or frame.file.startswith("<ipython-input")


def _backward(frames: tuple[StackFrame, ...]) -> str:
    op = ""
    for frame in frames:
        if node := _NODE.search(frame.name):
            return f"{node[1]}, {op}" if op else node[1]
        if called := _OP.search(frame.name):
            op = called[1]
    return ""
