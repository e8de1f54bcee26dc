"""Memory of the card in reference cycles: Python's garbage collector frees it, at moments that no two runs need share.

The collector runs after so many objects of Python's have been made, those of imports included, and of what watches the
script: a peak with such memory in it may be another on the card, or with another version of Python.
"""

import gc
from typing import Any

import torch

from coopsim.record.observe.private import hooked
from coopsim.run.probes.probe import Probe
from coopsim.run.process import ProcessReport


class Garbage(Probe):
    """Reports the most bytes that one collection has freed, of those that the script did not ask for."""

    name = "garbage"

    def __init__(self) -> None:
        self._before, self._most = 0, 0
        self._asked = False

    def install(self) -> None:
        gc.callbacks.append(self._collected)
        gc.collect = hooked(gc.collect, self._collect)

    def _collect(self, collect: Any, *args: Any, **kwargs: Any) -> int:
        self._asked = True  # at a moment that the script chooses
        try:
            return int(collect(*args, **kwargs))
        finally:
            self._asked = False

    def _collected(self, phase: str, _: dict[str, Any]) -> None:
        if self._asked or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            self._before = 0
        elif phase == "start":
            self._before = _allocated()
        elif self._before:
            self._most = max(self._most, self._before - _allocated())

    def report(self, found: ProcessReport) -> None:
        gc.callbacks.remove(self._collected)
        found.garbage_bytes = self._most


def _allocated() -> int:
    """Return what torch.cuda.memory_allocated does, which takes several times as long."""
    return int(torch.cuda.memory.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"])
