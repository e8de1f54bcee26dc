"""A rank that was to run alone needs the others of its pipeline: its process tells the one that started it."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from coopsim.script.task import FOLDER

_FILE = "needs-ranks"


def all_of(pipeline: Sequence[int]) -> NoReturn:
    """End this process: it can say nothing without these ranks, one for each stage (or several stages)."""
    Path(os.environ[FOLDER], _FILE).write_text(json.dumps(list(pipeline)), encoding="utf-8")
    os._exit(0)


def said(folder: str) -> tuple[int, ...]:
    """The ranks that a process whose folder this is needs; none if it needs nobody."""
    file = Path(folder, _FILE)
    return tuple(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else ()
