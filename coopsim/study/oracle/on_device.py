"""Perform requests on the caching allocator of the PyTorch that is installed, on its device: python -m … LIMIT.

For a process of its own. Reads requests from stdin and writes answers to stdout, as coopsim/study/oracle's driver does;
only `a`, `f` and `p`. Before them a line `device BYTES`; after them a line `segment ADDRESS BYTES` for each segment
that the allocator made by cudaMalloc, in order. LIMIT is what the allocator may reserve, in bytes
(torch.cuda.set_per_process_memory_fraction).
"""

import sys
from collections.abc import Iterable, Iterator

import torch

from coopsim.base.budget import memory_fraction


def answers(lines: Iterable[str], limit: int) -> Iterator[str]:
    """The device's bytes, a line for each allocation, the statistics where they are asked for, and the segments."""
    total = torch.cuda.get_device_properties(0).total_memory
    yield f"device {total}"
    if limit < total:
        torch.cuda.set_per_process_memory_fraction(memory_fraction(limit, total))
    # Without stacks, on the host alone: it changes no answer.
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=2**24)
    held: dict[str, int] = {}
    for line in lines:
        kind, *words = line.split()
        if kind == "a":
            number, nbytes, _ = words
            try:
                held[number] = torch.cuda.caching_allocator_alloc(int(nbytes))
            except torch.OutOfMemoryError:
                yield f"oom {number} {nbytes}"
            else:
                yield f"a {number} {held[number]}"
        elif kind == "f":
            if words[0] in held:  # it was not refused
                torch.cuda.caching_allocator_delete(held.pop(words[0]))  # type: ignore[no-untyped-call]
        else:
            yield statistics()
    for event in torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]:
        if event["action"] == "segment_alloc":
            yield f"segment {event['addr']} {event['size']}"


def statistics() -> str:
    """The figures that the oracle's driver prints."""
    s = torch.cuda.memory_stats()

    def both(name: str, key: str) -> str:
        return f"{name} {s[key + '.all.current']} peak {s[key + '.all.peak']}"

    return (
        f"stats {both('alloc', 'allocated_bytes')} {both('reserved', 'reserved_bytes')} "
        f"{both('active', 'active_bytes')} {both('insplit', 'inactive_split_bytes')} "
        f"requested_peak {s['requested_bytes.all.peak']} "
        f"nseg {s['segment.all.current']} nsegpeak {s['segment.all.peak']} retries {s['num_alloc_retries']} "
        f"ooms {s['num_ooms']} ndevalloc {s['num_device_alloc']} ndevfree {s['num_device_free']}"
    )


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no GPU")
    print(f"torch {torch.__version__}")
    for answer in answers(sys.stdin, int(sys.argv[1])):
        print(answer)
