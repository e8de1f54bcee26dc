"""Errors in a user's policy, with the line of theirs that raised."""

import linecache
import traceback
from pathlib import Path

from coopsim.simulate.policies._code import is_local_file


def said(e: BaseException) -> str:
    """What was raised, and in which line of the user's, as one line."""
    text = str(e).splitlines()[0] if str(e) else "no message"
    what = f"{type(e).__name__}: {text}"
    if isinstance(e, SyntaxError):
        return what  # says where
    theirs = [frame for frame in traceback.extract_tb(e.__traceback__) if is_local_file(frame.filename)]
    if not theirs:
        return what
    file, line = theirs[-1].filename, theirs[-1].lineno or 0
    source = linecache.getline(file, line).strip()
    return f"{Path(file).name}:{line}: {what}" + (f", in `{source}`" if source else "")
