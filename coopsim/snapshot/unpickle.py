"""Read a pickle that somebody else made: plain containers, numbers and text only, within a bound on memory.

A snapshot of torch.cuda.memory is a pickle of nothing but dicts, lists, tuples, numbers and strings, so that no class
and no function is ever looked up: a pickle that asks for one is refused before anything of it runs.
"""

import pickle
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from coopsim.types import CoopsimError

#: Memory that reading may take: so much, and so many times the file's size. A container of small numbers takes the
#: most, some 60 bytes for each of the file's.
_BASE_BYTES, _PER_BYTE = 1 << 30, 100


class SnapshotError(CoopsimError):
    """Not a snapshot, or not one that can be read; the message says why."""


class _NotPlainError(Exception):
    """The pickle asks for more than plain data."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise _NotPlainError(f"it wants {module}.{name}, and a snapshot is plain data")

    def persistent_load(self, _pid: object) -> NoReturn:
        raise _NotPlainError("it refers to objects outside of itself")


def load(path: str | Path) -> Any:
    """The object in the file. SnapshotError if it is missing, no pickle, damaged, or anything but plain data."""
    try:
        with open(path, "rb") as file:
            size = Path(path).stat().st_size
            with _memory_limit(_BASE_BYTES + _PER_BYTE * size):
                return _PlainUnpickler(file).load()
    except FileNotFoundError:
        raise SnapshotError(f"{path}: no such file") from None
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror or error}") from None
    except MemoryError:
        raise SnapshotError(f"{path}: not read: it would take more memory than a snapshot of its size can") from None
    except _NotPlainError as error:
        raise SnapshotError(f"{path}: not a memory snapshot: {str(error)[:200]}") from None
    except Exception:  # a damaged pickle may raise nearly anything, and says nothing that helps
        raise SnapshotError(f"{path}: not a memory snapshot: not a pickle, or a damaged one") from None


@contextmanager
def _memory_limit(nbytes: int) -> Iterator[None]:
    """Let this process's address space grow by at most so much; what asks for more raises MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    limit = now + nbytes
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    if soft != resource.RLIM_INFINITY:
        limit = min(limit, soft)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
