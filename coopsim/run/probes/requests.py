"""Record what a script asks its allocator for: all of it, or step by step, with where steps and their parts begin.

The allocator's own history has the requests. Marks lie between them: the allocator counts its requests, so that their
number at a mark is its place. The history is fetched and dropped at the end of each step.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from coopsim.base.files import replacing
from coopsim.record.observe import roles, torch_private
from coopsim.record.observe.torch_private import memory_snapshot, record_history
from coopsim.record.observe.where import Where
from coopsim.run.longrun import recorded
from coopsim.run.probes.calls import Calls, Phase
from coopsim.run.probes.probe import Probe
from coopsim.run.process import ProcessReport
from coopsim.trace.request_rows import ALLOCATE, EMPTY, FREE

#: The allocator's history keeps the latest entries, this many at most (about 1 GiB of host memory).
LIMIT = 2**22

_POOLS = "it allocates from private pools, as CUDA graphs do"
_STREAMS = "a block is used by another stream than its own when it is freed (record_stream)"
_LOST = "it resets the allocator's accumulated statistics, or a step makes too many requests"
_OOM = "memory ran out"


class StepRequests(Probe):
    """Records from the moment when the device is up, and writes to `path` (longrun/recorded.py).

    `where` tells how many backward passes there were.
    """

    def __init__(self, path: str, where: Where, calls: Calls) -> None:
        self._path, self._where, self._of = path, where, calls
        self._rows: list[tuple[int, int, int, int]] = []
        self._marks: list[tuple[int, int]] = []  # row, mark
        self._pending: list[tuple[int, int]] = []  # of this step: count of requests, mark; -1: the cache is emptied
        self._shapes: list[list[tuple[int, ...]]] = []
        self._numbers: dict[int, int] = {}
        self._taken = self._counted = 0
        self._trained_at = -1  # the count of backward passes when the last TRAIN mark was made; -1: none in this step
        self._unmet = self._conf = ""
        self._stats: Callable[[int], Any] = torch_private.get("torch._C._cuda_memoryStats")

    def install(self) -> None:
        self._of.begins.append(self._begins)
        self._of.ends.append(self._ends)
        for name in ("_cuda_emptyCache", "_accelerator_emptyCache"):
            path = f"torch._C.{name}"
            if torch_private.has(path):
                torch_private.replace(path, self._emptying(torch_private.get(path)))

    def start_history(self) -> None:
        record_history(enabled="all", context=None, max_entries=LIMIT, clear_history=True)

    def step_ended(self, _steps: int) -> None:
        self._mark(recorded.STEP)
        self._trained_at = -1
        self._fetch()

    def report(self, _found: ProcessReport) -> None:
        """Write what was recorded up to the end of the last step."""
        shapes = tuple(tuple(of) for of in self._shapes)
        rows = np.array(self._rows, np.int64).reshape(-1, 4)
        marks = np.array(self._marks, np.int64).reshape(-1, 2)
        recorded.RecordedSteps(rows, marks, shapes, self._conf, torch.__version__, self._unmet).save(self._path)

    # -- marks ---------------------------------------------------------------------------------------------------------

    def _begins(self, phase: Phase | None) -> None:
        if phase is None or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            return
        if phase != "training":
            self._mark(recorded.GENERATION if phase == "generation" else recorded.EVALUATION)
        elif self._trained_at in (-1, *range(self._where.backwards)):
            self._trained_at = self._where.backwards
            self._mark(recorded.TRAIN)
            self._shapes.append([])

    def _ends(self, phase: Phase | None, given: Any) -> None:
        if phase is None or not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            return
        if phase != "training":
            self._mark(recorded.END)
        elif self._shapes:
            self._shapes[-1] += [tuple(tensor.shape) for tensor in roles.within(given)]

    def _emptying(self, empty: Callable[..., Any]) -> Callable[..., Any]:
        def emptied(*args: Any) -> Any:
            self._mark(-1)
            return empty(*args)

        return emptied

    def _mark(self, mark: int) -> None:
        self._pending.append((self._count(), mark))

    def _count(self) -> int:
        """How many requests there were so far: allocations, and frees."""
        of = self._stats(torch.cuda.current_device())["allocation"]["all"]
        return int(of["allocated"] + of["freed"])

    # -- requests ------------------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        """Take over the history of the step that has ended."""
        found = memory_snapshot()
        self._conf = found.get("allocator_settings", {}).get("PYTORCH_CUDA_ALLOC_CONF", "") or ""
        events = found["device_traces"][torch.cuda.current_device()]
        record_history(enabled="all", context=None, max_entries=LIMIT, clear_history=True)
        marks, at, freed = iter(self._pending), self._counted, 0
        count, mark = next(marks)
        for event in events:
            action = event["action"]
            if action == "free_completed":
                self._require(event["addr"] == freed, _STREAMS)
                freed = 0
                continue
            self._require(not freed, _STREAMS)
            if action not in ("alloc", "free_requested"):
                self._require(action != "oom", _OOM)
                continue
            while at >= count:
                self._put(mark)
                count, mark = next(marks, (sys.maxsize, 0))
            at += 1
            if action == "alloc":
                self._require(tuple(event.get("pool_id", (0, 0))) == (0, 0), _POOLS)
                self._numbers[event["addr"]] = self._taken
                self._rows.append((ALLOCATE, self._taken, event["size"], event["stream"]))
                self._taken += 1
            else:
                freed = event["addr"]
                number = self._numbers.pop(freed, -1)
                self._require(number >= 0, _LOST)
                self._rows.append((FREE, number, 0, 0))
        self._require(at == self._pending[-1][0], _LOST)
        while count != sys.maxsize:
            self._put(mark)
            count, mark = next(marks, (sys.maxsize, 0))
        self._counted = self._pending[-1][0]
        self._pending.clear()

    def _put(self, mark: int) -> None:
        if mark < 0:
            self._rows.append((EMPTY, 0, 0, 0))
        else:
            self._marks.append((len(self._rows), mark))

    def _require(self, met: bool, else_: str) -> None:
        if not met and not self._unmet:
            self._unmet = else_


class RequestsProbe(Probe):
    """Writes all requests of this process to `path`, as a NumPy file.

    The array is int64 of shape (n, 2): a block's number, and its bytes, or -1 to free it. Nothing is written if there
    were more requests than the history holds.
    """

    name = "requests"

    def __init__(self, path: str) -> None:
        self._path = path

    def start_history(self) -> None:
        record_history(enabled="all", context=None, max_entries=LIMIT)

    def report(self, _found: ProcessReport) -> None:
        events = memory_snapshot()["device_traces"][torch.cuda.current_device()]
        if len(events) >= LIMIT:
            return
        with replacing(self._path) as part, open(part, "wb") as file:
            np.save(file, np.array(_rows(events), np.int64).reshape(-1, 2))


def _rows(events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    numbers: dict[int, int] = {}
    rows: list[tuple[int, int]] = []
    for event in events:
        if event["action"] == "alloc":
            numbers[event["addr"]] = len(rows)
            rows.append((len(rows), event["size"]))
        elif event["action"] == "free_requested":
            rows.append((numbers.pop(event["addr"]), -1))
    return rows
