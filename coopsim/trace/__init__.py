"""The tables: traces, schedules, what a program asks its allocator for, PyTorch's memory snapshots.

A trace is what one steady training step (or several consecutive ones) did, at storage level, in program order.
"""

import importlib

TYPE_CHECKING = False  # as checkers know it, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from coopsim.trace.build import TraceBuilder as TraceBuilder
    from coopsim.trace.checks import check as check
    from coopsim.trace.file import load as load
    from coopsim.trace.file import save as save
    from coopsim.trace.named import load_trace as load_trace
    from coopsim.trace.ragged import Ragged as Ragged
    from coopsim.trace.table import SCHEMA_VERSION as SCHEMA_VERSION
    from coopsim.trace.table import Trace as Trace

#: The module of each public name. None is imported before it is used.
_WHERE = {
    "Ragged": "ragged",
    "SCHEMA_VERSION": "table",
    "Trace": "table",
    "TraceBuilder": "build",
    "check": "checks",
    "load": "file",
    "load_trace": "named",
    "save": "file",
}
__all__ = [*_WHERE]


def __getattr__(name: str) -> "Any":
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
