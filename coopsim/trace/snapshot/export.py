"""Export a schedule as a memory snapshot of PyTorch's, for torch's own _memory_viz and the memory_viz page.

An arena is one segment, there from the start. The stack of an entry, which the page shows on hover, is the op, its
module, and the policy; the value's name is the entry's user metadata. The page replays a history backwards from the
final segments, so these are the state after the last entry.
"""

import pickle
from pathlib import Path
from typing import Any

from coopsim.base.files import replacing
from coopsim.base.types import Action, CoopsimError
from coopsim.trace import Trace
from coopsim.trace.schedule import GIVES_BACK, Schedule

#: The page's unpickler supports no later protocol.
_PROTOCOL = 4
Json = dict[str, Any]


def to_snapshot(schedule: Schedule, trace: Trace) -> Json:
    """Return a simulated run in the form of torch.cuda.memory._snapshot's result.

    Raises CoopsimError if the schedule has no addresses.
    """
    h = schedule.header
    budget = int(h["budget_bytes"])
    entries = [_entry("segment_alloc", 0, budget, 0, [], "")]
    live: dict[int, tuple[int, list[Json]]] = {}
    again = schedule.serves_again().tolist()
    for row, (action, _, op, storage, version, address, nbytes, time_ns, _) in enumerate(schedule.rows()):
        if action == Action.ALLOC:
            if address < 0:
                raise CoopsimError(f"a schedule in a {h['allocator']} has no addresses to show")
            frames = _frames(trace, op, h["policy"], "recomputed" if again[row] else "")
            live[address] = nbytes, frames
            entries.append(_entry("alloc", address, nbytes, time_ns, frames, _name(trace, storage, version)))
        elif action in GIVES_BACK:
            _, frames = live.pop(address)
            word = Action(action).name.lower()
            why = _frames(trace, op, h["policy"], f"{word} of {_name(trace, storage, version)}")
            entries += [
                _entry(kind, address, nbytes, time_ns, why, word) for kind in ("free_requested", "free_completed")
            ]
    return {
        "segments": [_segment(budget, live)],
        "device_traces": [entries],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "coopsim": f"{h['policy']} in {h['allocator']}"},
        "external_annotations": [],
    }


def save(snapshot: Json, path: str | Path) -> None:
    """Write a snapshot to a file, atomically. Raises CoopsimError if it cannot be written."""
    with replacing(path) as part, part.open("wb") as file:
        pickle.dump(snapshot, file, protocol=_PROTOCOL)


def _entry(action: str, address: int, nbytes: int, time_ns: int, frames: list[Json], name: str) -> Json:
    return {
        "action": action,
        "addr": address,
        "size": nbytes,
        "stream": 0,
        "time_us": time_ns // 1000,
        "compile_context": "N/A",
        "user_metadata": name,
        "pool_id": (0, 0),
        "frames": frames,
    }


def _name(trace: Trace, storage: int, version: int) -> str:
    return "temporary" if storage < 0 else f"{trace.role[storage]} s{storage}.{version}"


def _frames(trace: Trace, op: int, policy: str, what: str) -> list[Json]:
    """Return a stack of three frames: the op, the module that it belongs to, and the policy under which it ran."""
    name, module = (trace.name[op], trace.module[op]) if op >= 0 else ("start or end of a step", "")
    return [
        {"name": f"{name} {what}".rstrip(), "filename": "op", "line": max(op, 0)},
        {"name": module or "(no module)", "filename": "module", "line": 0},
        {"name": policy, "filename": "policy", "line": 0},
    ]


def _segment(total: int, live: dict[int, tuple[int, list[Json]]]) -> Json:
    blocks: list[Json] = []
    at = 0
    for address, (nbytes, frames) in sorted(live.items()):
        if address > at:
            blocks.append(_block(at, address - at, "inactive", []))
        blocks.append(_block(address, nbytes, "active_allocated", frames))
        at = address + nbytes
    if at < total:
        blocks.append(_block(at, total - at, "inactive", []))
    used = sum(b["size"] for b in blocks if b["state"] != "inactive")
    return {
        "device": 0,
        "address": 0,
        "total_size": total,
        "allocated_size": used,
        "active_size": used,
        "requested_size": used,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def _block(address: int, nbytes: int, state: str, frames: list[Json]) -> Json:
    return {"address": address, "size": nbytes, "requested_size": nbytes, "state": state, "frames": frames}
