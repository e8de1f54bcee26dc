"""Read an untrusted pickle: plain containers, numbers and text only, within a bound on memory.

A snapshot of torch.cuda.memory is a pickle of dicts, lists, tuples, numbers and strings only, so no class and no
function is ever looked up: a pickle that refers to one is rejected before any of it runs.
"""

import pickle
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from coopsim.base.types import CoopsimError

#: Memory that reading may take: _BASE_BYTES, and _PER_BYTE times the file's size. A container of small numbers takes
#: most, some 60 bytes per byte of the file.
_BASE_BYTES, _PER_BYTE = 1 << 30, 100


class SnapshotError(CoopsimError):
    """The file is not a snapshot, or cannot be used; the message says why."""


class _NotPlainError(Exception):
    """The pickle has more than plain data."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise _NotPlainError(f"it wants {module}.{name}, and a snapshot is plain data")

    def persistent_load(self, _pid: object) -> NoReturn:
        raise _NotPlainError("it refers to objects outside of itself")


def load(path: str | Path) -> Any:
    """Return the object in a pickle file.

    Raises SnapshotError if the file is missing, no pickle, damaged, or not plain data, or would take too much memory.
    """
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
    except Exception:  # a damaged pickle may raise nearly any error, whose message does not help
        raise SnapshotError(f"{path}: not a memory snapshot: not a pickle, or a damaged one") from None


@contextmanager
def _memory_limit(nbytes: int) -> Iterator[None]:
    """Within the context, limit the growth of this process's address space; a larger allocation raises MemoryError."""
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
