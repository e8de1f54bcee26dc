"""A user's own score as machine code, if Numba can compile it.

The code is kept in this process only, under a hash of all that the function reads: Numba's own cache on disk knows
neither globals nor closures nor constants, and would go on with another parameter's code.
"""

import warnings
from typing import Any
from weakref import WeakKeyDictionary

from coopsim.simulate.policies._reads import Reads

_KEPT = 64
_compiled: dict[str, Any] = {}  #: what Numba made, by the hash of what it was made from; None: it could not
_as_of: "WeakKeyDictionary[Any, str]" = WeakKeyDictionary()  #: what each function compiled by a user read then


def compiled_score(function: Any, reads: Reads) -> Any:
    """A C callback of the function, whose `address` kernels call; None: it runs as Python."""
    if "print" in getattr(
        getattr(function, "__code__", None), "co_names", ()
    ):  # which finds no environment to do it in
        return None
    if reads.unknown or reads.digest not in _compiled:
        made = _compile(function)
        if reads.unknown:
            return made
        while len(_compiled) >= _KEPT:
            _compiled.pop(next(iter(_compiled)))
        _compiled[reads.digest] = made
    return _compiled[reads.digest]


def _compile(function: Any) -> Any:
    import numba  # a quarter of a second, which policies without a score of their own do without

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            inner = function if hasattr(function, "py_func") else numba.njit(error_model="numpy")(function)

            def score(cost: float, recency: float, nbytes: float, hole: float) -> Any:
                return inner(cost, recency, nbytes, hole)

            return numba.cfunc("float64(float64,float64,float64,float64)", error_model="numpy")(score)
        except Exception:  # what cannot be compiled runs as Python
            return None


def refresh(reads: Reads) -> None:
    """Compile anew what a user's code calls, and Numba has compiled with other globals or closures than now."""
    for function in reads.dispatchers:
        now = Reads(function.py_func)
        if now.unknown or _as_of.get(function) != now.digest:
            function.recompile()
            _as_of[function] = now.digest
