"""Histories written by hand: tensors that each fill a segment of their own, with the stacks that asked for them."""

import pickle
from pathlib import Path
from typing import Any

MIB = 1 << 20
Stack = list[tuple[str, int, str]]  #: file, line, function; innermost first
MODULE = ("/lib/python3.11/site-packages/torch/nn/modules/module.py", 1775, "_call_impl")
OPTIMIZER = ("/lib/python3.11/site-packages/torch/optim/optimizer.py", 493, "wrapper")


class History:
    """What an allocator does that serves multiples of 2 MiB from 12 MiB on, the lowest free segment first."""

    def __init__(self, base: int = 0x7F0000000000) -> None:
        self.events: list[dict[str, Any]] = []
        self.held: dict[int, tuple[int, list[dict[str, Any]]]] = {}
        self._free: dict[int, list[int]] = {}
        self._next = base

    def take(self, mib: int, *stack: tuple[str, int, str]) -> int:
        """Ask for memory; its address."""
        frames = _frames(stack)
        free = self._free.setdefault(mib, [])
        if not free:
            self._put("segment_alloc", self._next, mib, frames)
            free.append(self._next)
            self._next += mib * MIB
        address = min(free)
        free.remove(address)
        self._put("alloc", address, mib, frames)
        self.held[address] = mib, frames
        return address

    def give(self, address: int) -> None:
        """Free it."""
        mib, _ = self.held.pop(address)
        for action in ("free_requested", "free_completed"):
            self._put(action, address, mib, [])
        self._free[mib].append(address)

    def empty(self) -> None:
        """torch.cuda.empty_cache."""
        for mib, free in self._free.items():
            for address in free:
                self._put("segment_free", address, mib, [])
            free.clear()

    def run_out(self, mib: int, *stack: tuple[str, int, str]) -> None:
        """A request for which the device has nothing left."""
        entry = {"action": "oom", "device_free": 0, "size": mib * MIB, "stream": 0, "frames": _frames(stack)}
        self.events.append(entry)

    def write(self, path: Path) -> Path:
        """As torch.cuda.memory._dump_snapshot does."""
        blocks = [(a, mib, "active_allocated", frames) for a, (mib, frames) in self.held.items()]
        blocks += [(a, mib, "inactive", []) for mib, free in self._free.items() for a in free]
        segments = [
            {
                "device": 0,
                "address": address,
                "total_size": mib * MIB,
                "stream": 0,
                "segment_type": "large",
                "is_expandable": False,
                "blocks": [{"address": address, "size": mib * MIB, "state": state, "frames": frames}],
            }
            for address, mib, state, frames in sorted(blocks)
        ]
        path.write_bytes(pickle.dumps({"segments": segments, "device_traces": [self.events]}, protocol=4))
        return path

    def _put(self, action: str, address: int, mib: int, frames: list[dict[str, Any]]) -> None:
        size = mib * MIB
        self.events.append({"action": action, "addr": address, "size": size, "stream": 0, "frames": frames})


def _frames(stack: tuple[tuple[str, int, str], ...]) -> list[dict[str, Any]]:
    return [{"filename": file, "line": line, "name": name} for file, line, name in stack]
