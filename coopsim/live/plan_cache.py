"""Where the plans of earlier starts of programs are kept, in the user's cache folder. Knows no torch.

Plans are plan files (plan_file.py), which hold no code; the ops of a step tell whether they are of it.
"""

import hashlib
from contextlib import suppress
from pathlib import Path

from coopsim.phantom.build import cache_folder

_MOST = 64  #: files that are kept, the latest ones
_MOST_BYTES = 256 << 20  #: all together


def place(*key: object) -> Path:
    """The file for the plans of a program, in a folder that is made. key: all that plans depend on, by its repr."""
    folder = cache_folder() / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.plan"


def trim(folder: Path) -> None:
    """Remove the files that were used longest ago, until no more than 64 are left, of 256 MiB."""
    found = []
    for file in folder.glob("*.plan"):
        with suppress(OSError):  # another process has removed it
            found.append((file.stat().st_mtime_ns, file.stat().st_size, file))
    left = _MOST_BYTES
    for i, (_, nbytes, file) in enumerate(sorted(found, reverse=True)):
        left -= nbytes
        if i >= _MOST or left < 0:
            file.unlink(missing_ok=True)
