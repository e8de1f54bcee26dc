"""The line of a stack that a user wants to see."""

import re
from functools import cache
from pathlib import PurePath

from coopsim.snapshot.model import Frame

#: What the paths of libraries' files have in them, and those of a user's own do not.
_LIBRARIES = ("site-packages/", "dist-packages/", "/lib/python")
_OURS = ("/coopsim/capture/", "/coopsim/observe/", "/coopsim/script/")
#: Frames of C++, which PyTorch's snapshots have unless they are asked not to: a node of a backward pass, and an op.
_NODE = re.compile(r"(?:^|::)(\w+Backward\w*)::apply\(")
_OP = re.compile(r"(?:^| )at::_ops::(\w+)::")


def is_own(frame: Frame) -> bool:
    """Is it a line of Python of the user's own? What lies in no folder of a library counts as such."""
    return is_python(frame) and not any(part in frame.file for part in (*_LIBRARIES, *_OURS))


@cache
def place(frames: tuple[Frame, ...]) -> str:
    """The innermost line of Python that is of the user's own, as file:line function.

    If there is none, as in the threads of a backward pass, the node of autograd that ran and the op that it called; if
    none of these either, the innermost line of a library; "" if the stack has no line of Python.
    """
    python = [f for f in frames if is_python(f) and not any(part in f.file for part in _OURS)]
    own = next((f for f in python if not any(part in f.file for part in _LIBRARIES)), None)
    line = own or (python[0] if python else None)
    ran = "" if own else _backward(frames)
    if ran or line is None:
        return ran
    file = PurePath(line.file).name
    return f"{file}:{line.line} {line.name}" if line.line else f"{file} {line.name}"  # the line is not known


def is_python(frame: Frame) -> bool:
    """Is it a line of Python?"""
    return frame.file.endswith(".py") or frame.file.startswith("<ipython-input")


def _backward(frames: tuple[Frame, ...]) -> str:
    op = ""
    for frame in frames:
        if node := _NODE.search(frame.name):
            return f"{node[1]}, {op}" if op else node[1]
        if called := _OP.search(frame.name):
            op = called[1]
    return ""
