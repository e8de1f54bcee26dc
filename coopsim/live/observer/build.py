"""The compiled observer, for the installed torch (half a minute, once)."""

import re
from pathlib import Path

from coopsim.observe.extension import Extension
from coopsim.observe.torch_private import INTERPRETER_FUNCTION, INTERPRETER_HEADER

_SOURCES = (
    *("account.h", "calls.h", "cells.h", "errors.h", "exchange.h", "follower.h", "operands.h"),
    *("storages.h", "sums.h", "table.h"),
    "observer.cpp",
)


def _headers(include: Path) -> dict[str, str]:
    return {"delegates.h": _delegates(include / INTERPRETER_HEADER)}


def _delegates(header: Path) -> str:
    """C++ that hands each virtual function of PyInterpreterVTable, but `dispatch` and `detach`, to `real`."""
    lines = []
    for kind, name, given in INTERPRETER_FUNCTION.findall(re.sub(r"//[^\n]*", "", header.read_text(encoding="utf-8"))):
        if name in ("dispatch", "detach"):
            continue
        types = [_type(" ".join(one.split())) for one in given.split(",") if one.strip()]
        takes = ", ".join(f"{one} a{i}" for i, one in enumerate(types))
        gives = ", ".join(f"std::move(a{i})" for i in range(len(types)))
        lines.append(f"{kind} {name}({takes}) const override {{ return real->{name}({gives}); }}")
    return "\n".join(lines) + "\n"


def _type(parameter: str) -> str:
    """Of a parameter, which may have a name: `const TensorImpl* self`, `at::MemoryFormat`."""
    words = parameter.split(" ")
    named = len(words) > 1 and re.fullmatch(r"\w+", words[-1]) and words[-2] != "const"
    return " ".join(words[:-1]) if named else parameter


OBSERVER = Extension("observer", "coopsim.live.observer", _SOURCES, ["-ltorch_cpu", "-lc10"], _headers)
