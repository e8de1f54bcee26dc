"""The compiled observer, as Python calls it. It follows a plan, and leaves to Python what is not as planned."""

import ctypes
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import torch

from coopsim.live.hollow import TEXT
from coopsim.live.observer.build import OBSERVER
from coopsim.live.observer.table import Table
from coopsim.observe.extension import NoExtensionError

_TEXT = 4000

RunAgain = Callable[[int, list[torch.UntypedStorage | None]], list[torch.UntypedStorage | None]]
_AGAIN = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)
)
_NUMBER = ctypes.CFUNCTYPE(None, ctypes.c_int64)


@cache
def load() -> Any:
    """The library. NoExtensionError if there is none."""
    lib = ctypes.PyDLL(str(OBSERVER.file()))
    lib.coopsim_follower.restype = lib.coopsim_table.restype = ctypes.c_void_p
    lib.coopsim_state.restype = ctypes.POINTER(ctypes.c_int64 * len(State.FIELDS))
    lib.coopsim_account.restype = ctypes.POINTER(ctypes.c_int64 * 3)
    lib.coopsim_callbacks.restype = ctypes.POINTER(ctypes.c_void_p * 3)
    lib.coopsim_known.restype = ctypes.POINTER(ctypes.c_int64)
    lib.coopsim_run.restype = ctypes.c_int64
    return lib


class State:
    """Numbers that the library keeps, by their places (follower.h)."""

    FIELDS = ENGAGED, AT, BROKEN, GONE, DONE, EVICTIONS, RECOMPUTES = tuple(range(7))


class Observer:
    """Stands between PyTorch and a dispatch mode from `enter` to `leave`; follows a plan from `engage` to `disengage`.

    state: as State says where. account: bytes on the CPU, those that Python has counted, the most there were, and those
    that the observer has counted.
    """

    def __init__(self) -> None:
        self._lib = lib = load()
        self._self = ctypes.c_void_p(lib.coopsim_follower(TEXT.encode(), ctypes.c_void_p(id(torch.OutOfMemoryError))))
        self.state = lib.coopsim_state(self._self).contents
        self.account = lib.coopsim_account(self._self).contents
        self._callbacks = lib.coopsim_callbacks(self._self).contents
        self._kept: list[Any] = []  # as long as the library may call it

    def enter(self) -> bool:
        """The mode that was entered last is called through this observer from now on. False: another one is watched."""
        return bool(self._lib.coopsim_enter(self._self))

    def leave(self) -> None:
        """And no more."""
        self._lib.coopsim_leave()

    def engage(
        self,
        table: Table,
        at: int,
        known: list[int],
        again: RunAgain,
        roomy: Callable[[bool], None] | None,
        foreign: Callable[[torch.UntypedStorage], object],
    ) -> None:
        """Follow a plan, from this entry of its tape on.

        known: what is known already, as follower.h has it. again: runs a call that Python has kept. roomy: an op may go
        over the budget from now on, or no more. foreign: counts a storage on the CPU that is not of PyTorch's memory.
        """

        def run(op: int, operands: Any, n: int, results: Any) -> int:
            try:
                given = [stored(operands[i]) for i in range(n)]
                made = again(op, given)
            except Exception:  # Python will do the same again, and raise it where somebody sees it
                return -1
            for i, storage in enumerate(made):
                results[i] = storage._cdata if storage is not None else 0
                if storage is not None:
                    self._lib.coopsim_hold(ctypes.c_void_p(storage._cdata))  # the library lets go of it
            return len(made)

        def count(address: int) -> None:
            storage = stored(address)
            if storage is not None:
                foreign(storage)

        self._kept = [table, _AGAIN(run), _NUMBER(lambda enter: roomy(bool(enter))) if roomy else None, _NUMBER(count)]
        for i, function in enumerate(self._kept[1:]):
            self._callbacks[i] = ctypes.cast(function, ctypes.c_void_p).value if function else None
        numbers = (ctypes.c_int64 * len(known))(*known)
        self._lib.coopsim_engage(self._self, table.handle, ctypes.c_int64(at), numbers)

    def disengage(self) -> None:
        """Every op goes to the mode."""
        self._lib.coopsim_disengage(self._self)

    def complete(self) -> bool:
        """Has the program all its bytes?"""
        return bool(self._lib.coopsim_complete(self._self))

    def known(self) -> Iterator[int]:
        """All that it knows: the numbers that exchange.h writes."""
        numbers, i = self._lib.coopsim_known(self._self), 0
        while True:
            yield numbers[i]
            i += 1

    def has_emptied(self, storage: torch.UntypedStorage) -> bool:
        """Is its memory gone?"""
        return bool(self._lib.coopsim_gone(self._self, ctypes.c_void_p(storage._cdata)))

    def pin(self, storage: torch.UntypedStorage) -> None:
        """It must not be emptied."""
        self._lib.coopsim_pin(self._self, ctypes.c_void_p(storage._cdata))

    def count(self, storage: torch.UntypedStorage) -> bool:
        """The observer counts a storage on the CPU from now on. False: it cannot."""
        return bool(self._lib.coopsim_count(self._self, ctypes.c_void_p(storage._cdata)))

    def uncount(self, storage: torch.UntypedStorage) -> None:
        """It does so no more."""
        self._lib.coopsim_uncount(ctypes.c_void_p(storage._cdata))


class Kept:
    """A call that the library has kept, in place of its arguments."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        weakref.finalize(self, load().coopsim_free_call, ctypes.c_void_p(handle)).atexit = False

    def run(self, operands: Sequence[torch.UntypedStorage | None], most: int) -> list[torch.UntypedStorage | None]:
        """Run it again on storages by position; gives those of its results, of `most` at most."""
        lib, n = load(), len(operands)
        given = (ctypes.c_int64 * n)(*(s._cdata if s is not None else 0 for s in operands))
        results, text = (ctypes.c_int64 * most)(), ctypes.create_string_buffer(_TEXT)
        sizes = ctypes.c_int64(n), ctypes.c_int64(most), ctypes.c_int64(_TEXT)
        made = lib.coopsim_run(ctypes.c_void_p(self.handle), given, sizes[0], results, sizes[1], text, sizes[2])
        if made < 0:
            kind = torch.OutOfMemoryError if made == -2 else RuntimeError
            raise kind(text.value.decode(errors="replace"))
        found = [stored(address) for address in results[:made]]
        for address in results[:made]:
            lib.coopsim_let_go(ctypes.c_void_p(address))
        return found


def stored(address: int) -> torch.UntypedStorage | None:
    """The storage at an address that the library gave; None if it is no more."""
    return torch.UntypedStorage._new_with_weak_ptr(address) if address else None


def find() -> tuple[Observer | None, str]:
    """A new observer, or why there is none."""
    try:
        return Observer(), ""
    except (NoExtensionError, OSError, AttributeError) as why:
        return None, str(why)
