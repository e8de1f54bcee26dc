"""What memory holds at the moment when an allocation fails: by role, by maker, and the largest free block."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace

import torch

from coopsim.observe import roles
from coopsim.script.reporting.process import Held, OutOfMemory, ProcessReport
from coopsim.script.watching import allocator, places
from coopsim.script.watching.calls import Phase
from coopsim.script.watching.kept import Unused
from coopsim.script.watching.kinds import UNUSED
from coopsim.script.watching.probe import Probe
from coopsim.script.watching.recorder import ScriptRecorder
from coopsim.script.watching.steps import Steps
from coopsim.types import Role

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
