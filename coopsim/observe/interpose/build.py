"""How the library is compiled for the installed torch (some seconds, once)."""

from pathlib import Path

from coopsim.observe.extension import Extension
from coopsim.observe.interpose import delegates

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


def _headers(include: Path) -> dict[str, str]:
    told = delegates.text(include, _OWN, traces=False)
    return {"delegates.h": told, "delegates_but_dispatch.h": delegates.text(include, ("dispatch",), traces=True)}


INTERPOSE = Extension("interpose", "coopsim.observe.interpose", _SOURCES, ["-ltorch_cpu", "-lc10"], _headers)
