"""What memory holds at the moment when an allocation fails: by role, by maker, and the largest free block."""

from collections import Counter, defaultdict
from typing import Any

import torch

from coopsim.observe import roles
from coopsim.script import allocator, places
from coopsim.script.kinds import UNUSED
from coopsim.script.recorder import ScriptRecorder
from coopsim.types import Role

_LARGEST = 8


def found(
    recorder: ScriptRecorder, device: int, asked: int, step: int, unused: frozenset[int] = frozenset()
) -> dict[str, Any]:
    """Return a report on the failed request of `asked` bytes: the fields of OutOfMemory, in types that JSON has.

    To be called while the allocation fails. step: the number of the optimizer step that is under way, from 1.
    unused: the serials of storages that no step reads (unused.py), whose role is "unused". "held_bytes" is by role;
    what the allocator holds beyond the recorded storages, such as the workspaces of libraries, is "other". "largest"
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
    return {
        "place": places.here(),
        "op": op,
        "module": module,
        "phase": str(recorder.where.phase(mutates_gradient=False)),
        "step": step,
        "requested_bytes": asked,
        "allocated_bytes": allocated,
        "reserved_bytes": stats["reserved_bytes.all.current"],
        "largest_free_block_bytes": max(free_blocks, default=0),
        "device_free_bytes": torch.cuda.mem_get_info()[0],
        "memory_fraction": allocator.fraction(device),
        "held_bytes": dict(sorted(by_role.items(), key=lambda item: -item[1])),
        "largest": [
            {"role": role, "op": op, "module": module, "storages": len(sizes), "bytes": sum(sizes)}
            for (role, op, module), sizes in largest
        ],
    }
