"""A compiled search of a user's: machine code that the core calls with the addresses of the columns."""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from coopsim.base.types import CoopsimError
from coopsim.simulate.kernel import state as s
from coopsim.simulate.policies._compiled import COLUMNS, arrays_of, compiled
from coopsim.simulate.policies._eviction_policy import kinds_of
from coopsim.simulate.policies._reads import Reads

_made: dict[tuple[Any, ...], Any] = {}  #: what was compiled, by the hash of all that it reads, and the kinds of arrays


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(_typing: Any, address: Any) -> Any:
    """An address as a pointer."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], ir.IntType(8).as_pointer())

    return numba.types.voidptr(address), generate


class CompiledSearch:
    """The search of one replay. `address` is of its machine code, `words` that of what it is called with."""

    def __init__(self, search: compiled, instance: Any, state: s.State, reads: Reads) -> None:
        kinds = kinds_of(type(instance))
        names = search.names(type(instance).__name__, kinds)
        given = arrays_of(instance, names, kinds)
        numbers = np.array([float(instance.parameters[name]) for name in names if name in kinds] or [0.0])
        columns = dict(zip(COLUMNS, (*state.table[:3], state.can_go, state.score, state.table[3]), strict=True))
        arrays = {name: columns[name] if name in columns else given.get(name) for name in names}
        words = [state.K[s.K_LISTED :].ctypes.data, numbers.ctypes.data, state.scratch.ctypes.data, len(state.scratch)]
        for array in arrays.values():
            words += [0, 0] if array is None else [array.ctypes.data, len(array)]
        self.words = np.array(words, np.int64)
        self.wants_scores, self.wants_where = "score" in names, not {"address", "last_use"}.isdisjoint(names)
        self._alive = (numbers, given)
        kind = tuple(
            "column" if name in columns else given[name].dtype.str if name in given else kinds.get(name, name)
            for name in names
        )
        key = (reads.digest, names, kind)
        if reads.unknown or key not in _made:
            _made[key] = _compile(search, type(instance).__name__, names, arrays, kinds)
        self._code = _made[key]
        self.address = int(self._code.address)


def _compile(search: compiled, owner: str, names: tuple[str, ...], arrays: dict[str, Any], kinds: Any) -> Any:
    """The function behind an entry of two numbers, which reads where everything is."""
    inner = numba.njit(error_model="python", boundscheck=True)(search.function)
    lines, numbers = [], 0
    for k, name in enumerate(names):
        at = 4 + 2 * k
        if arrays[name] is not None:
            length = "n" if name in COLUMNS else f"words[{at + 1}]"
            kind = arrays[name].dtype.name.rstrip("_")
            lines.append(f"a{k} = carray(pointer(words[{at}]), ({length},), {kind}_)")
        elif name == "out":
            lines.append(f"a{k} = carray(pointer(words[2]), (words[3],), int64_)")
        elif name == "need":
            lines.append(f"a{k} = need")
        else:
            lines.append(
                f"a{k} = {kinds[name].__name__}(carray(pointer(words[1]), ({numbers + 1},), float64_)[{numbers}])"
            )
            numbers += 1
    text = "\n    ".join(
        [
            "def entry(where, need):",
            f"words = carray(pointer(where), ({4 + 2 * len(names)},), int64_)",
            "n = carray(pointer(words[0]), (1,), int64_)[0]",
            *lines,
            f"found = inner({', '.join(f'a{k}' for k in range(len(names)))})",
            "if found < 0 or found > words[3]:",
            "    raise ValueError('choose returns how many values it has written to out')",
            "return found",
        ]
    )
    scope: dict[str, Any] = {"carray": numba.carray, "pointer": _pointer, "inner": inner}
    scope |= {"int64_": np.int64, "float64_": np.float64, "bool_": np.bool_}
    exec(text, scope)  # noqa: S102  (the text is ours)
    try:
        return numba.cfunc("int64(int64,int64)", error_model="numpy")(scope["entry"])
    except Exception as e:
        if any(signature.return_type == numba.types.none for signature in inner.nopython_signatures):
            raise CoopsimError(f"{owner}.choose returns nothing, not how many values it has written to out") from None
        said = next((line for line in str(e).splitlines() if line.strip() and "Failed" not in line), type(e).__name__)
        raise CoopsimError(f"{owner}.choose cannot be compiled: {said.strip()}") from None
