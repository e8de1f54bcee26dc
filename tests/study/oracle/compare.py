"""Where the simulation and the real allocator differ, and the shortest stream that shows it."""

from dataclasses import replace

from coopsim.base.types import CoopsimError
from coopsim.simulate.allocators.caching import case, state
from coopsim.simulate.allocators.caching.api import CachingAllocator
from coopsim.study.oracle import Oracle
from coopsim.trace.request_rows import KIND, STOP
from tests.study.oracle.streams import Stream


def simulate(stream: Stream, version: str) -> list[str]:
    """The lines of the simulation; one line `refused ...` if it takes the settings for wrong."""
    try:
        return list(
            case.answer(case.AllocatorCase(stream.conf, stream.total, stream.ops, case.read(stream.ops)), version)
        )
    except CoopsimError as e:
        return [f"refused {e}"]


def plain(lines: list[str]) -> list[str]:
    """Refusals are equal whatever their words."""
    return ["refused"] if lines and ("refused " in lines[-1] or "what():" in lines[-1]) else lines


def loses_a_pool(stream: Stream, version: str) -> bool:
    """Whether PyTorch deletes a private pool that is in use, after which its answers mean nothing, or it crashes.

    It counts a pool's expandable segments wrongly (docs/allocators.md).
    """
    if "expandable" not in stream.conf or not any(op[0] in "bc" for op in stream.ops):
        return False
    allocator = CachingAllocator(version, stream.conf, stream.total)
    for op in stream.ops[:2]:  # a pool may be begun first
        if op.startswith("F"):
            allocator.set_memory_fraction(case.fraction_of(op))
    rows = case.read(stream.ops)
    allocator.run(rows[rows[:, KIND] != STOP])
    counts = allocator.state.G[:, state.G_MALLOCS]
    return bool((counts < 0).any()) or any(s.pool and counts[s.pool] == 0 for s in allocator.segments())


def difference(stream: Stream, oracle: Oracle) -> tuple[str, str] | None:
    """The first pair of lines that differ: ours, the real one's. None, too, where PyTorch loses a private pool."""
    ours = plain(simulate(stream, oracle.version))
    real = plain(oracle.ask(stream.conf, stream.total, stream.ops))
    if ours == real or loses_a_pool(stream, oracle.version):
        return None
    for a, b in zip(ours, real, strict=False):
        if a != b:
            return a, b
    return f"{len(ours)} lines", f"{len(real)} lines"


def _together(ops: list[str]) -> list[list[int]]:
    """Requests that go together: all that concern one allocation, or one private pool; each other one alone."""
    parts: dict[str, list[int]] = {}
    for i, op in enumerate(ops):
        words = op.split()
        of_pool = f"pool {words[1]}" if words[0] in "bcnxE" else f"#{i}"
        parts.setdefault(words[1] if words[0] in "afr" else of_pool, []).append(i)
    return list(parts.values())


def _without(stream: Stream, gone: set[int]) -> Stream:
    return replace(stream, ops=[op for i, op in enumerate(stream.ops) if i not in gone])


def _leave_out(stream: Stream, parts: list[list[int]], oracle: Oracle) -> Stream:
    """Leave out parts, first half of them at a time, then ever fewer, as long as what is left still differs."""
    gone: set[int] = set()
    chunk = max(1, len(parts) // 2)
    while True:
        at, shorter = 0, False
        while at < len(parts):
            more = gone | {i for part in parts[at : at + chunk] for i in part}
            if difference(_without(stream, more), oracle):
                gone, shorter = more, True
                parts = parts[:at] + parts[at + chunk :]
            else:
                at += chunk
        if chunk == 1 and not shorter:
            return _without(stream, gone)
        chunk = max(1, chunk // 2)


def shrink(stream: Stream, oracle: Oracle) -> Stream:
    """A shorter stream that still differs: first without whole allocations, then without single requests."""
    stream = _leave_out(stream, _together(stream.ops), oracle)
    return _leave_out(stream, [[i] for i, op in enumerate(stream.ops) if op[0] in "fr"], oracle)
