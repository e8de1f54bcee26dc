"""PyTorch's memory snapshot of the moment when memory ran out, or else of the end, without coopsim's frames."""

import os
import pickle
from pathlib import Path
from typing import Any

from coopsim.observe.torch_private import memory_snapshot, record_history
from coopsim.script.process import ProcessReport
from coopsim.script.watching.probe import Probe

#: Folders of the packages whose frames are removed: this one, and observe, which it watches with.
_OWN = tuple(f"{Path(__file__).parents[2] / package}/" for package in ("script", "observe"))
#: PyTorch's wrappers around a dispatch mode's function.
_WRAPPERS = ("torch/_compile.py", "torch/_dynamo/eval_frame.py")


class Snapshot(Probe):
    """Writes the snapshot to the file `path`."""

    name = "snapshot"

    def __init__(self, path: str) -> None:
        self._path = path
        self._ran_out = False

    def start_history(self) -> None:
        """Start the history that a snapshot has."""
        record_history(stacks="python")

    def ran_out(self, _device: int, _asked: int) -> None:
        """Write it, as memory runs out: it replaces an earlier one."""
        self._ran_out = True
        self._write()

    def report(self, _found: ProcessReport) -> None:
        """Write it, unless memory has run out."""
        if not self._ran_out:
            self._write()

    def _write(self) -> None:
        part = f"{self._path}.{os.getpid()}.part"
        with open(part, "wb") as file:  # protocol 4: the memory_viz page reads no later one
            pickle.dump(unwatched(memory_snapshot()), file, protocol=4)
        os.replace(part, self._path)


def unwatched(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Remove the recorder's frames from the stacks of a snapshot (torch.cuda.memory._snapshot), in place; return it."""
    known: dict[int, tuple[object, list[dict[str, Any]]]] = {}  # by id of a stack, which is kept alive with its id
    holders = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    holders += [*snapshot["segments"], *(entry for trace in snapshot["device_traces"] for entry in trace)]
    for holder in holders:
        stack = holder.get("frames")
        if stack:
            if id(stack) not in known:
                known[id(stack)] = stack, _cut(stack)
            holder["frames"] = known[id(stack)][1]
    return snapshot


def _cut(stack: list[dict[str, Any]]) -> list[dict[str, Any]]:
    own = [i for i, frame in enumerate(stack) if frame["filename"].startswith(_OWN)]
    start = own[-1] + 1 if own else 0
    while start < len(stack) and stack[start]["filename"].endswith(_WRAPPERS):
        start += 1
    return stack[start:]
