"""The compiled observer, as Python calls it. It runs the ops of a plan at which there is nothing to do."""

import ctypes
import weakref
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import torch

from coopsim.live.observer import build
from coopsim.live.plan import Plan

_MOST = 1024  #: storages that are taken at once


@cache
def _library() -> Any:
    lib = ctypes.PyDLL(str(build.library()))
    lib.coopsim_observer.restype = lib.coopsim_table.restype = ctypes.c_void_p
    lib.coopsim_state.restype = ctypes.POINTER(ctypes.c_int64 * 4)
    lib.coopsim_take.restype = ctypes.c_int64
    return lib


class Table:
    """A plan's rows, as the library has them. quiet: numbers of those at which Python has nothing to do."""

    def __init__(self, plan: Plan, kind: str) -> None:
        rows = plan.rows
        schemas = [getattr(row.func, "_schema", None) for row in rows]
        names = [(schema.name if schema else "").encode() for schema in schemas]
        overloads = [(schema.overload_name if schema else "").encode() for schema in schemas]
        quiet = bytes(plan.quiet(row, counted=kind == "cpu") and row.func.namespace == "aten" for row in rows)
        text = ctypes.c_char_p * len(rows)
        self.lib = _library()
        self.handle = ctypes.c_void_p(
            self.lib.coopsim_table(
                int(kind == "cuda"), ctypes.c_int64(len(plan.program.bytes)), ctypes.c_int64(len(rows)),
                text(*names), text(*overloads), quiet,
                *_pairs(row.look for row in rows), *_pairs(row.find for row in rows),
            )
        )  # fmt: skip
        weakref.finalize(self, self.lib.coopsim_free, self.handle)


def _pairs(rows: Iterable[list[tuple[int, int]]]) -> tuple[Any, Any]:
    """Where the pairs of each row start, and all pairs."""
    starts, flat = [0], []
    for row in rows:
        flat += [number for pair in row for number in pair]
        starts.append(len(flat) // 2)
    return (ctypes.c_int32 * len(starts))(*starts), (ctypes.c_int32 * len(flat))(*flat)


class Observer:
    """Stands between PyTorch and a dispatch mode from `enter` to `leave`; follows a plan from `engage` to `disengage`.

    state: is it following, the next entry of the tape, has a result turned out to be another than the plan's, how many
    storages has it met?
    """

    def __init__(self) -> None:
        self._lib = lib = _library()
        self._self = ctypes.c_void_p(lib.coopsim_observer())
        self.state = lib.coopsim_state(self._self).contents
        self._numbers = (ctypes.c_int32 * _MOST)()
        self._addresses, self._sizes = (ctypes.c_int64 * _MOST)(), (ctypes.c_int64 * _MOST)()

    def enter(self) -> bool:
        """The mode that was entered last is called through this observer from now on. False: another one is watched."""
        return bool(self._lib.coopsim_enter(self._self))

    def leave(self) -> None:
        """And no more."""
        self._lib.coopsim_leave(self._self)

    def engage(self, table: Table, at: int) -> None:
        """Follow a plan, from this entry of its tape on."""
        self._table = table
        self._lib.coopsim_engage(self._self, table.handle, ctypes.c_int64(at))

    def disengage(self) -> None:
        """Every op goes to the mode."""
        self._lib.coopsim_disengage(self._self)

    def bind(self, s: int, storage: torch.UntypedStorage) -> None:
        """This is the plan's storage of that number."""
        self._lib.coopsim_bind(self._self, s, ctypes.c_void_p(storage._cdata))

    def met(self) -> Iterator[tuple[int, torch.UntypedStorage | None, int]]:
        """Storages that it has met since the last call: number, None if it is gone already, bytes."""
        n = _MOST
        while n == _MOST:
            n = self._lib.coopsim_take(self._self, ctypes.c_int64(_MOST), self._numbers, self._addresses, self._sizes)
            for i in range(n):
                storage = torch.UntypedStorage._new_with_weak_ptr(self._addresses[i])
                yield self._numbers[i], storage, self._sizes[i]


def find() -> tuple[Observer | None, str]:
    """A new observer, or why there is none."""
    try:
        return Observer(), ""
    except (build.NoObserverError, OSError, AttributeError) as why:
        return None, str(why)
