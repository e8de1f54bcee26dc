"""The compiled library, for the installed torch (half a minute, once)."""

import re
from pathlib import Path

from coopsim.observe.extension import Extension

_SOURCES = (
    *("costs.h", "ledger.h", "memory.h", "modules.h", "native.h", "operands.h", "schemas.h", "watchers.h"),
    "interpose.cpp",
)
_VIRTUAL = re.compile(r"virtual\s+([\w:<>*&\s]+?)\s*\b(\w+)\(([^;{]*?)\)\s*const\s*=\s*0\s*;")
_OURS = ("trace_gpu_memory_allocation", "trace_gpu_memory_deallocation")


def _headers(include: Path) -> dict[str, str]:
    return {"delegates.h": _delegates(include / "c10/core/impl/PyInterpreter.h")}


def _delegates(header: Path) -> str:
    """C++ that hands each virtual function of PyInterpreterVTable to `real`, and does nothing in those that trace."""
    lines = []
    for kind, name, given in _VIRTUAL.findall(re.sub(r"//[^\n]*", "", header.read_text(encoding="utf-8"))):
        if name in _OURS:
            continue
        types = [_type(" ".join(one.split())) for one in given.split(",") if one.strip()]
        takes = ", ".join(f"{one} a{i}" for i, one in enumerate(types))
        gives = ", ".join(f"std::move(a{i})" for i in range(len(types)))
        body = "" if name.startswith("trace_gpu_") else f"return real->{name}({gives});"
        lines.append(f"{kind} {name}({takes}) const override {{ {body} }}")
    return "\n".join(lines) + "\n"


def _type(parameter: str) -> str:
    """Of a parameter, which may have a name: `const TensorImpl* self`, `at::MemoryFormat`."""
    words = parameter.split(" ")
    named = len(words) > 1 and re.fullmatch(r"\w+", words[-1]) and words[-2] != "const"
    return " ".join(words[:-1]) if named else parameter


INTERPOSE = Extension("interpose", "coopsim.observe.interpose", _SOURCES, ["-ltorch_cpu", "-lc10"], _headers)
