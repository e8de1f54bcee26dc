"""Report from a rank's process to its parent that the rank cannot run alone, as it needs the ranks of its pipeline."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from coopsim.script.task import FOLDER

_FILE = "needs-ranks"


def all_of(pipeline: Sequence[int]) -> NoReturn:
    """Report that this process needs the ranks of `pipeline`, each with one or several stages, and exit with code 0."""
    Path(os.environ[FOLDER], _FILE).write_text(json.dumps(list(pipeline)), encoding="utf-8")
    os._exit(0)


def said(folder: str) -> tuple[int, ...]:
    """Return the ranks that the process with this report folder has reported (`all_of`); () if it can run alone."""
    file = Path(folder, _FILE)
    return tuple(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else ()
