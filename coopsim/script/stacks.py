"""Remove coopsim's frames from stack traces."""

from pathlib import Path
from typing import Any

#: Folders of the packages whose frames are removed: this one, and observe, which it watches with.
_OWN = tuple(f"{Path(__file__).parents[1] / room}/" for room in ("script", "observe"))
#: PyTorch's wrappers around a dispatch mode's function.
_WRAPPERS = ("torch/_compile.py", "torch/_dynamo/eval_frame.py")


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
