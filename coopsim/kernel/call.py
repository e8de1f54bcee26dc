"""Call a user's function from a kernel by its address: the state has one type whatever is called, the cache holds."""

import ctypes
from collections.abc import Callable
from typing import Any

from coopsim.kernel.jit import DISABLED, intrinsic

_functions: dict[int, Callable[..., Any]] = {}  #: of interpreted kernels, by what stands for an address


def address_of(function: Any) -> int:
    """The machine address of a ctypes function, by which call_score or call_search finds it."""
    if DISABLED:
        _functions[id(function)] = function
        return id(function)
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _score(address: int, cost: float, recency: float, nbytes: float, hole: float) -> float:
    return float(_functions[address](cost, recency, nbytes, hole))


def _search(address: int, need: int) -> int:
    return int(_functions[address](need))


call_score = intrinsic("call_score", _score)  #: a user's score: of address, cost, recency, bytes, hole
call_search = intrinsic("call_search", _search)  #: a user's search: how many values it put into the state's scratch
