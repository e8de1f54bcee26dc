"""The line of a stack that a user wants to see."""

from functools import cache
from pathlib import PurePath

from coopsim.snapshot.model import Frame

#: What the paths of libraries' files have in them, and those of a user's own do not.
_LIBRARIES = ("site-packages/", "dist-packages/", "/lib/python", "/coopsim/capture/", "/coopsim/script/", "<")


@cache
def place(frames: tuple[Frame, ...]) -> str:
    """The innermost line that is of the user's own, as file:line function; or of whatever there is."""
    own = next((f for f in frames if not any(part in f.file for part in _LIBRARIES)), None)
    own = own or (frames[0] if frames else None)
    return f"{PurePath(own.file).name}:{own.line} {own.name}" if own is not None else ""
