"""Read and write the text of Python files as Python does: in their encoding (PEP 263), by lines.

Other characters that end a line for `str.splitlines`, such as form feeds, end none for Python.
"""

import re
import tokenize
from pathlib import Path

from coopsim.base.types import CoopsimError


def read(file: str | Path) -> str:
    """Return the text of a file, its lines ended by "\\n"; "" for no file. Raises CoopsimError if it is no source."""
    if not str(file) or not Path(file).is_file():
        return ""
    try:
        with tokenize.open(file) as opened:
            return opened.read()
    except (SyntaxError, UnicodeDecodeError, OSError):
        raise CoopsimError(f"{file}: is not the text of a Python program") from None


def rows(text: str) -> list[str]:
    """Return the lines of a text with their ends.

    >>> rows("a\\n\\fb\\nc")
    ['a\\n', '\\x0cb\\n', 'c']
    """
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def encoded(file: str | Path, text: str) -> bytes:
    """Return a new text of a file as its bytes: in the file's encoding, with the ends of its first line."""
    with open(file, "rb") as opened:
        encoding, lines = tokenize.detect_encoding(opened.readline)
        first = (lines or [b""])[0] or b""
    return (text.replace("\n", "\r\n") if first.endswith(b"\r\n") else text).encode(encoding)
