"""What memory holds at the moment when an allocation fails: by role, by maker, and the largest free block.

PyTorch's memory snapshot of the moment when memory ran out, or else of the end, without coopsim's frames.
"""

import pickle
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from coopsim.base.files import replacing
from coopsim.base.types import Role
from coopsim.record.observe import roles
from coopsim.record.observe.torch_private import memory_snapshot, record_history
from coopsim.run.probes import allocator, places
from coopsim.run.probes.calls import Phase
from coopsim.run.probes.kept import Unused
from coopsim.run.probes.kinds import UNUSED
from coopsim.run.probes.probe import Probe
from coopsim.run.probes.recorder import ScriptRecorder
from coopsim.run.probes.steps import Steps
from coopsim.run.process import ProcessReport
from coopsim.run.records import Held, OutOfMemory

#: Rooms whose frames are removed: this one, and the one that it watches with.
_OWN = tuple(f"{Path(__file__).parents[2] / room}/" for room in ("run", "record"))
#: PyTorch's wrappers around a dispatch mode's function.
_WRAPPERS = ("torch/_compile.py", "torch/_dynamo/eval_frame.py")


class SnapshotProbe(Probe):
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
        with replacing(self._path) as part, open(part, "wb") as file:
            # protocol 4: the memory_viz page reads no later one
            pickle.dump(unwatched(memory_snapshot()), file, protocol=4)


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


_LARGEST = 8


class OutOfMemories(Probe):
    """Notes what memory holds whenever it runs out.

    `batch` gives the phase that interrupts training and the number of its batch (Peaks.batch), `batches` how many the
    data loader has, 0 if not known.
    """

    def __init__(
        self,
        recorder: ScriptRecorder,
        steps: Steps,
        unused: Unused,
        batch: Callable[[], tuple[Phase, int, bool] | None],
        batches: Callable[[], int],
    ) -> None:
        self._recorder, self._steps, self._unused = recorder, steps, unused
        self._batch, self._batches = batch, batches
        self._last: OutOfMemory | None = None
        self._in_training = False  #: whether memory last ran out while training

    def ran_out(self, device: int, asked: int) -> None:
        """Note what memory holds, while the allocation fails."""
        self._in_training = torch.is_grad_enabled() or self._recorder.where.backwards > 0
        self._last = found(self._recorder, device, asked, self._steps.count + 1, self._unused.serials)
        phase, batch, with_gradients = self._batch() or ("training", 0, False)
        if batch and (torch.is_grad_enabled() == with_gradients or batch < self._batches()):  # else it is over
            self._last = replace(self._last, phase=phase, batch=batch, batches=self._batches())

    def report(self, found: ProcessReport) -> None:
        """Report the last time, and whether the script took no step afterwards."""
        found.out_of_memory = self._last
        found.gave_up = self._in_training and self._last is not None and self._last.step > self._steps.count


def found(recorder: ScriptRecorder, device: int, asked: int, step: int, unused: frozenset[int]) -> OutOfMemory:
    """Return what is known of the failed request of `asked` bytes.

    To be called while the allocation fails. step: the number of the optimizer step that is under way, from 1.
    unused: the serials of storages that no step reads (kept.py), whose role is "unused". `held_bytes` is by role;
    what the allocator holds beyond the recorded storages, such as the workspaces of libraries, is "other". `largest`
    lists the groups of storages of one role, op and module that hold the most.
    """
    stats = torch.cuda.memory_stats(device)
    roles.assign(roles.Objects.now(), recorder.ledger)
    by_role: Counter[str] = Counter()
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for storage in recorder.ledger.alive():
        role = UNUSED if storage.serial in unused else str(storage.role or Role.ACTIVATION)
        by_role[role] += storage.nbytes
        groups[role, *(storage.maker or ("", ""))].append(storage.nbytes)
    allocated = stats["allocated_bytes.all.current"]
    by_role["other"] = max(allocated - sum(by_role.values()), 0)
    largest = sorted(groups.items(), key=lambda item: (-sum(item[1]), item[0]))[:_LARGEST]
    op, module = recorder.running
    free_blocks = [
        block["size"]
        for segment in torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
        for block in segment["blocks"]
        if block["state"] == "inactive"
    ]
    return OutOfMemory(
        place=places.here(),
        op=op,
        module=module,
        phase=str(recorder.where.phase(mutates_gradient=False)),
        step=step,
        requested_bytes=asked,
        allocated_bytes=allocated,
        reserved_bytes=stats["reserved_bytes.all.current"],
        largest_free_block_bytes=max(free_blocks, default=0),
        device_free_bytes=torch.cuda.mem_get_info()[0],
        memory_fraction=allocator.fraction(device),
        held_bytes=dict(sorted(by_role.items(), key=lambda item: -item[1])),
        largest=[Held(*made, storages=len(sizes), bytes=sum(sizes)) for made, sizes in largest],
    )
