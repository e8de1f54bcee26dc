"""The ctypes interface of the compiled library (interpose.cpp)."""

import ctypes
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from coopsim.record.observe.extension import Extension, NoExtensionError
from coopsim.record.observe.torch_private import INTERPRETER_FUNCTION, INTERPRETER_HEADER

_SOURCES = (
    *(
        "costs.h",
        "ledger.h",
        "memory.h",
        "modes.h",
        "modules.h",
        "native.h",
        "operands.h",
        "precision.h",
        "schemas.h",
        "recorders.h",
    ),
    "interpose.cpp",
)
_OWN = ("trace_gpu_memory_allocation", "trace_gpu_memory_deallocation")


def delegates(include: Path, own: tuple[str, ...], *, traces: bool) -> str:
    """Return the text of a C++ header: methods, one for each function of PyInterpreterVTable but those in `own`.

    PyTorch's core calls Python by that table.

    Each calls the same function of the object `real`, PyTorch's own table; without `traces`, the hooks of sanitizers
    (trace_gpu_*) do nothing instead. `include` is torch's include folder, whose header lists the functions.
    """
    header = (include / INTERPRETER_HEADER).read_text(encoding="utf-8")
    lines = []
    for kind, name, given in INTERPRETER_FUNCTION.findall(re.sub(r"//[^\n]*", "", header)):
        if name in own:
            continue
        types = [_type(" ".join(one.split())) for one in given.split(",") if one.strip()]
        takes = ", ".join(f"{one} a{i}" for i, one in enumerate(types))
        gives = ", ".join(f"std::move(a{i})" for i in range(len(types)))
        body = f"return real->{name}({gives});" if traces or not name.startswith("trace_gpu_") else ""
        lines.append(f"{kind} {name}({takes}) const override {{ {body} }}")
    return "\n".join(lines) + "\n"


def _type(parameter: str) -> str:
    """Return the type of a parameter, which may have a name: `const TensorImpl* self`, `at::MemoryFormat`."""
    words = parameter.split(" ")
    named = len(words) > 1 and re.fullmatch(r"\w+", words[-1]) and words[-2] != "const"
    return " ".join(words[:-1]) if named else parameter


def _headers(include: Path) -> dict[str, str]:
    told = delegates(include, _OWN, traces=False)
    return {"delegates.h": told, "delegates_but_dispatch.h": delegates(include, ("dispatch",), traces=True)}


INTERPOSE = Extension("interpose", "coopsim.record.observe.interpose", _SOURCES, ["-ltorch_cpu", "-lc10"], _headers)


_NUMBER, _POINTER = ctypes.c_int64, ctypes.c_void_p


class Entry(ctypes.Structure):
    """A storage of the ledger. op and module are the numbers of those that made it, -1 if not known; see ledger.h."""

    _fields_ = [
        (name, _NUMBER) for name in ("serial", "nbytes", "address", "resized", "allocated", "op", "module", "known")
    ]


class Account(ctypes.Structure):
    """Totals over all storages, which Python reads directly; see ledger.h.

    newest: the newest serial. live: bytes alive; peak: their peak; most: their maximum after an op, and newest_at_most
    the newest serial at that moment. gone: the count of serials that `gone` has yet to return.
    allocations: how many there were.
    """

    _fields_ = [(name, _NUMBER) for name in ("newest", "live", "peak", "most", "newest_at_most", "gone", "allocations")]


class Description(ctypes.Structure):
    """What Python tells the library about an op; see schemas.h."""

    _fields_ = [
        *((name, _NUMBER) for name in ("flags", "changes", "if_given", "given", "if_true", "true_flags")),
        ("ns", ctypes.c_double * 2),
        ("per_byte", ctypes.c_double * 2),
    ]


STREAM = ctypes.CFUNCTYPE(_NUMBER)
DESCRIBE = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Description))


class DeviceCalls(ctypes.Structure):
    """The card's bandwidth, and functions of the phantom's CUDA runtime; see costs.h."""

    _fields_ = [("stream", STREAM), ("op_begins", _POINTER), ("op_ends", _POINTER), ("clear", _POINTER)]


#: The library's functions, without their prefix: name → (argument types, result type).
_FUNCTIONS: dict[str, tuple[list[Any], Any]] = {
    "include": ([ctypes.c_int], None),
    "exclude": ([ctypes.c_int], ctypes.c_int),
    "enter": ([ctypes.c_int, ctypes.c_int], ctypes.c_int),
    "leave": ([], None),
    "tell": ([], None),
    "forget": ([], ctypes.c_int),
    "account": ([], ctypes.POINTER(Account)),
    "of": ([_POINTER, ctypes.POINTER(Entry)], _NUMBER),
    "of_storage": ([_POINTER, ctypes.POINTER(Entry)], _NUMBER),
    "look_at_peak": ([], None),
    "alive": ([ctypes.POINTER(Entry), _NUMBER], _NUMBER),
    "at_most": ([ctypes.POINTER(Entry), _NUMBER], _NUMBER),
    "gone": ([ctypes.POINTER(_NUMBER), _NUMBER], _NUMBER),
    "values": ([_POINTER, ctypes.c_int], None),
    "note_touched": ([ctypes.c_int], None),
    "describe": ([DESCRIBE], None),
    "device": ([ctypes.POINTER(DeviceCalls)], None),
    "all_to_python": ([ctypes.c_int], None),
    "cost": ([_NUMBER], None),
    "running": ([ctypes.POINTER(_NUMBER)], _NUMBER),
    "name": ([_NUMBER, ctypes.c_char_p, _NUMBER], _NUMBER),
    "module": ([_NUMBER, _NUMBER], None),
    "forget_modules": ([], None),
    "backward_done": ([ctypes.c_int], ctypes.c_int),
    "storage": ([_POINTER, ctypes.POINTER(_NUMBER)], _NUMBER),
}


class Library:
    """The loaded library; each of its functions is an attribute, named without the prefix `coopsim_`."""

    def __init__(self, path: str) -> None:
        library = ctypes.PyDLL(path)
        for name, (takes, gives) in _FUNCTIONS.items():
            function = getattr(library, f"coopsim_{name}")
            function.argtypes, function.restype = takes, gives
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(name)


@cache
def load() -> Library | None:
    """Return the library, compiled if necessary; None if it cannot be compiled, or does not load here."""
    try:
        return Library(str(INTERPOSE.file()))
    except (NoExtensionError, OSError, AttributeError):
        return None
