"""The observer: compiled code (csrc/observer.cpp) that follows a plan, and calls Python where a step differs."""

import ctypes
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import torch

from coopsim.live.errors import TRAP_TEXT
from coopsim.record.observe.extension import Extension, NoExtensionError
from coopsim.record.observe.interpose.library import delegates

_SOURCES = (
    *("account.h", "calls.h", "cells.h", "follower.h", "operands.h", "storages.h", "sums.h", "table.h"),
    "observer.cpp",
)


def _headers(include: Path) -> dict[str, str]:
    return {"delegates.h": delegates(include, ("dispatch", "detach"), traces=True)}


#: Compiled for the installed torch, once.
OBSERVER = Extension("observer", "coopsim.live.csrc", _SOURCES, ["-ltorch_cpu", "-lc10"], _headers)

_NUMBERS = ctypes.POINTER(ctypes.c_int64)
_AGAIN = ctypes.CFUNCTYPE(None, ctypes.c_int64, _NUMBERS, ctypes.c_int64, _NUMBERS, _NUMBERS)
_COPY = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5, _NUMBERS)
_NUMBER = ctypes.CFUNCTYPE(None, ctypes.c_int64)


@cache
def load() -> Any:
    """The observer's library, loaded once and compiled if need be. Raises NoExtensionError if that is impossible."""
    lib = ctypes.PyDLL(str(OBSERVER.file()))
    lib.coopsim_follower.restype = lib.coopsim_table.restype = ctypes.c_void_p
    lib.coopsim_state.restype = ctypes.POINTER(ctypes.c_int64 * len(State.FIELDS))
    lib.coopsim_account.restype = ctypes.POINTER(ctypes.c_int64 * 3)
    lib.coopsim_callbacks.restype = ctypes.POINTER(ctypes.c_void_p * 4)
    lib.coopsim_known.restype = ctypes.POINTER(ctypes.c_int64)
    lib.coopsim_run.restype = ctypes.c_int64
    return lib


class State:
    """Indices of the numbers that the library keeps of a followed step (follower.h).

    PYTHON: how often the library has called Python, for ops and for `Callables`, since the observer was made. RAISED:
    whether one of these calls has raised what the program is to see.
    """

    FIELDS = ENGAGED, AT, BROKEN, GONE, DONE, EVICTIONS, RECOMPUTES, PYTHON, RAISED = tuple(range(9))


class Observer:
    """Stands between PyTorch and a dispatch mode from `enter` to `exit`; follows a plan from `engage` to `disengage`.

    inside: whether it intercepts ops. state: numbers by State. account: three counts of bytes on the CPU: those that
    Python counts, the peak of both, and those that the observer counts.
    """

    def __init__(self) -> None:
        self._lib = lib = load()
        self._self = ctypes.c_void_p(
            lib.coopsim_follower(TRAP_TEXT.encode(), ctypes.c_void_p(id(torch.OutOfMemoryError)))
        )
        self.state = lib.coopsim_state(self._self).contents
        self.account = lib.coopsim_account(self._self).contents
        self._callbacks = lib.coopsim_callbacks(self._self).contents
        self.inside = False
        self._table: Any = None  # as long as the library may read it
        self._for: Any = None  # an observed.Progress
        self._own = self._again, self._copy, self._roomy, self._foreign
        kinds: tuple[Any, ...] = _AGAIN, _COPY, _NUMBER, _NUMBER
        self._functions = [kind(own) for kind, own in zip(kinds, self._own, strict=True)]
        self._addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in self._functions]

    def enter(self, device_type: str) -> None:
        """Start to intercept the ops of the latest dispatch mode, unless an observer does so already.

        device_type: "cuda" or "cpu", of the ops that plans have.
        """
        self.inside = True
        self.inside = bool(self._lib.coopsim_enter(self._self, ctypes.c_int(device_type == "cpu")))

    def exit(self) -> None:
        """Stop intercepting ops: they go to the dispatch mode directly."""
        self._lib.coopsim_leave()
        self.inside = False

    def engage(self, table: Any, at: int, known: list[int], progress: Any) -> None:
        """Follow a plan, by its observed.Table, from entry `at` of its op log on.

        known: the state of tracked storages and calls, in observer.cpp's format. progress: an observed.Progress, which
        does what the library calls Python for.
        """
        self._table, self._for, ooms = table, progress, progress.values.room.ooms
        wanted = True, True, progress.values.room.is_capped, True
        self._callbacks[:] = [at if yes else None for at, yes in zip(self._addresses, wanted, strict=True)]
        numbers = (ctypes.c_int64 * len(known))(*known)
        self._lib.coopsim_engage(self._self, table.handle, ctypes.c_int64(at), numbers, ctypes.byref(ooms))

    # What these raise, ctypes hands to sys.unraisablehook (mode.py). They write what they answer, and return nothing.

    def _again(self, op: int, operands: Any, n: int, results: Any, made: Any) -> None:
        found = self._for.run_again(op, [stored(operands[i]) for i in range(n)])
        for i, storage in enumerate(found):
            results[i] = self._for_library(storage)
        made[0] = len(found)

    def _copy(self, kind: int, s: int, v: int, at: int, address: int, answer: Any) -> None:
        found = self._for.copy(kind, (s, v), at, stored(address))
        answer[0] = found if isinstance(found, bool) else self._for_library(found)
        if not isinstance(found, bool):
            self._for.values.residency.copies.arrived((s, v))

    def has_raised(self, unraisable: Any) -> bool:
        """Whether a callback has raised what is in this argument of sys.unraisablehook."""
        said = unraisable.err_msg or ""
        return any(unraisable.object is one or repr(one) in said for one in self._own)

    def _for_library(self, storage: torch.UntypedStorage | None) -> int:
        """The address of a storage, with a reference that the library lets go of; 0 for none."""
        if storage is None:
            return 0
        self._lib.coopsim_hold(ctypes.c_void_p(storage._cdata))
        return int(storage._cdata)

    def _roomy(self, enter: int) -> None:
        self._for.values.room.exceed(bool(enter))

    def _foreign(self, address: int) -> None:
        storage = stored(address)
        if storage is not None and self._for is not None:
            self._for.values.residency.ledger.of_storage(storage)

    def disengage(self) -> None:
        """Stop following the plan: every op goes to the dispatch mode."""
        self._lib.coopsim_disengage(self._self)

    def complete(self) -> bool:
        """Whether every storage of the step that the program refers to has memory: nothing is left to restore."""
        return bool(self._lib.coopsim_complete(self._self))

    def is_usual(self) -> bool:
        """Whether ops compute as when the step began: else it would leave each to Python (calls.h)."""
        return bool(self._lib.coopsim_is_usual(self._self))

    def known(self) -> Iterator[int]:
        """The state of storages and calls, as numbers in the format of observer.cpp, which says where they end."""
        numbers, i = self._lib.coopsim_known(self._self), 0
        while True:
            yield numbers[i]
            i += 1

    def has_emptied(self, storage: torch.UntypedStorage) -> bool:
        """Whether the observer has evicted a storage, which is without memory now."""
        return self.state[State.GONE] and bool(self._lib.coopsim_gone(self._self, ctypes.c_void_p(storage._cdata)))

    def pin(self, storage: torch.UntypedStorage) -> None:
        """Keep the observer from evicting a storage until the step is over."""
        self._lib.coopsim_pin(self._self, ctypes.c_void_p(storage._cdata))

    def count(self, address: int) -> bool:
        """Count the memory of the storage at an address (`_cdata`) until it is freed. False for a GPU's, say."""
        return bool(self._lib.coopsim_count(self._self, ctypes.c_void_p(address)))


class Kept:
    """A call whose arguments the library keeps."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        weakref.finalize(self, load().coopsim_free_call, ctypes.c_void_p(handle)).atexit = False

    def run(self, operands: Sequence[torch.UntypedStorage | None], most: int) -> list[torch.UntypedStorage | None]:
        """Run the call again on the storages of its operands; return those of its results, at most `most`.

        Raises what the op raises: OutOfMemoryError or RuntimeError.
        """
        lib, n = load(), len(operands)
        given = (ctypes.c_int64 * n)(*(s._cdata if s is not None else 0 for s in operands))
        results, sizes = (ctypes.c_int64 * most)(), (ctypes.c_int64(n), ctypes.c_int64(most))
        made = lib.coopsim_run(ctypes.c_void_p(self.handle), given, sizes[0], results, sizes[1])
        found = [stored(address) for address in results[:made]]
        for address in results[:made]:
            lib.coopsim_let_go(ctypes.c_void_p(address))
        return found


def stored(address: int) -> torch.UntypedStorage | None:
    """The storage at an address that the library returned; None if it is gone, or the address is 0."""
    return torch.UntypedStorage._new_with_weak_ptr(address) if address else None


COMPILING = "it is still being compiled"


def find(*, wait: bool = True) -> tuple[Observer | None, str]:
    """A new observer and ""; or None and why there is none, in one line: its library cannot be compiled or loaded.

    wait: else None and COMPILING while a thread sees to the library.
    """
    try:
        if not wait and not _ahead().done():
            return None, COMPILING
        if not wait:
            _ahead().result()
        return Observer(), ""
    except (NoExtensionError, OSError, AttributeError) as why:
        return None, str(why)


@cache
def _ahead() -> "Future[object]":
    """The compilation of the library, in a thread that no program waits for at its end."""
    future: Future[object] = Future()

    def make() -> None:
        try:
            future.set_result(OBSERVER.file())
        except Exception as error:
            future.set_exception(error)

    Thread(target=make, daemon=True).start()
    return future
