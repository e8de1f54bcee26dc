"""Files that are written appear whole or not at all."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coopsim.base.types import CoopsimError


def target(path: str | Path) -> Path:
    """Where a file may be written: through a link, in a folder that is there, over nothing but a file.

    CoopsimError that says why not. To be asked before long work, too.
    """
    if not isinstance(path, str | os.PathLike):
        raise CoopsimError(f"file {path!r} is no name: give a string, or a path")
    if not str(path):
        raise CoopsimError("the name of a file to write is empty")
    real = Path(os.path.realpath(path))
    if real.is_dir():
        raise CoopsimError(f"{path}: is a folder, where a file is to be written")
    if real.exists() and not real.is_file():
        raise CoopsimError(f"{path}: is no ordinary file, and would be replaced by one")
    if not real.parent.is_dir():
        raise CoopsimError(f"{path}: no such folder")
    return real


def cache_folder() -> Path:
    """Where coopsim keeps what it can make again: $COOPSIM_CACHE_DIR, or coopsim in the user's cache folder."""
    own = os.environ.get("COOPSIM_CACHE_DIR")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "coopsim"


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary file beside `path`, which takes its place if nothing is raised, and is removed otherwise.

    CoopsimError, with the reason, if `path` cannot be written.
    """
    real = target(path)
    part: str | None = None
    made = False
    try:
        handle, part = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name[:100]}.", suffix=".part")
        os.close(handle)
        made = True
        yield Path(part)
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, real)
    except BaseException as e:
        if part is not None:
            with suppress(OSError):
                os.unlink(part)
        if isinstance(e, OSError):
            raise CoopsimError(f"{path}: cannot be written ({why_not(real, e, made=made)})") from None
        raise


def why_not(path: Path, e: OSError, *, made: bool = False) -> str:
    """Why a file cannot be written; `made`: it, or its part, was made before that."""
    if not made and e.errno == errno.ENOENT and path.parent.is_dir():  # of /proc, say
        return f"{path.parent} is a folder in which no files can be made"
    return os.strerror(e.errno) if e.errno else str(e)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
