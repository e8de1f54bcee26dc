"""Compiles the observer for the installed torch, once."""

from pathlib import Path

from coopsim.observe.extension import Extension
from coopsim.observe.interpose import delegates

_SOURCES = (
    *("account.h", "calls.h", "cells.h", "errors.h", "exchange.h", "follower.h", "operands.h"),
    *("storages.h", "sums.h", "swap.h", "table.h"),
    "observer.cpp",
)


def _headers(include: Path) -> dict[str, str]:
    return {"delegates.h": delegates.text(include, ("dispatch", "detach"), traces=True)}


OBSERVER = Extension("observer", "coopsim.live.observer", _SOURCES, ["-ltorch_cpu", "-lc10"], _headers)
