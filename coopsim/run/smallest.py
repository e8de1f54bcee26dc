"""Search for the smallest memory in which a script trains, over multiples of 2 MiB, starting from a guess."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from coopsim import phantom
from coopsim.run.launch.run import run
from coopsim.run.memory import ENDLESS
from coopsim.run.report import Report
from coopsim.run.script import Script
from coopsim.run.search import SearchedRuns, edge, ended

#: cudaMalloc allocates multiples of this, in bytes.
STEP = 2 << 20


def fit(script: Script, first: Report, requests: Path, say: Callable[[str], None]) -> tuple[int, int]:
    """Return the smallest memory in which the script trains, in bytes, context included; and the number of runs.

    `first` is the report of a run in which memory did not run out; `requests` is the file of its requests to the
    allocator, from which a guess is made. Runs then decide: the script trains with the memory returned, and does not
    with 2 MiB less. (With still less it may train again, as the caching allocator is not monotone.) `say` is called
    with a line per run.
    """
    runs = SearchedRuns[int](
        lambda nbytes: run(script.with_memory(nbytes)),
        lambda nbytes, said: say(f"with {nbytes >> 20} MiB: {ended(said, taken=False)}"),
    )
    trains = runs.trains
    again = 0
    if first.compiled_graphs:
        # The first run may have compiled kernels that later runs find in the cache. Meanwhile Python's garbage
        # collector ran more often, and freed tensors in reference cycles.
        say("again, as kernels are in the cache now")
        first, again = run(script.with_memory(first.memory_bytes), requests=requests), 1
        if first.outcome == "oom":
            first, again = run(script.with_memory(ENDLESS), requests=requests), 2
    # Less than the peak of allocated memory cannot suffice; all memory that was taken of the card does.
    part = first.memory_fraction or 1.0
    low = max(first.context_bytes + first.peak_allocated_bytes, int(first.peak_allocated_bytes / part))
    high = first.peak_device_bytes
    if first.memory_fraction is not None:
        high = max(high, int(first.peak_reserved_bytes / part) + STEP)
    nccl = -(-first.nccl_bytes // STEP) * STEP  # beside PyTorch's allocator
    near = None
    if requests.exists():
        with Server(script.card) as server:
            near = server.guess(requests, low, high - nccl, first.context_bytes, part=part)
        near = near + nccl if near is not None else None
    found = smallest(trains, low, high, near)
    # Where runs differ, by when the collector runs or by a limit that the script computes, the bounds are tried, too.
    while first.compiled_graphs or first.memory_fraction is not None:
        if not trains(found):
            found = smallest(trains, found + 1, 2 * found)
        elif trains(found - STEP):
            found = smallest(trains, first.context_bytes, found - STEP)
        else:
            break
    return found, again + len(runs.tried)


def smallest(fits: Callable[[int], bool], low: int, high: int, guess: int | None = None) -> int:
    """Return a multiple of 2 MiB that fits while 2 MiB less does not, in bytes.

    All amounts are in bytes. Assumes that nothing below `low` fits, and that `high` does; `fits` tells of all others.
    With a good `guess` it takes two calls, without one the logarithm of the distance between the bounds.
    """
    whole = (low - 1) // STEP, -(-high // STEP)
    stride = 0

    def between(bad: int, good: int, last: int) -> int:
        nonlocal stride
        if guess and (bad, good) == whole:
            return min(max(guess // STEP, bad + 1), good - 1)
        stride = 2 * stride or 1
        at = last + (stride if last == bad else -stride)
        if guess and bad < at < good:
            return at
        stride = good - bad  # no longer near the guess
        return (bad + good) // 2

    return edge(lambda at: fits(at * STEP), *whole, between)[1] * STEP


class Server:
    """A process that replays requests with PyTorch's allocator (served.py), to be asked once; close it in any case.

    It imports PyTorch as soon as it is started, while a script runs whose requests are not known yet. `variables` are
    set in its environment. Used as a context manager, it is closed at the end.
    """

    def __init__(self, card: str, variables: Iterable[tuple[str, str]] = ()) -> None:
        environment = os.environ | phantom.environment(card) | dict(variables)
        self._child = subprocess.Popen(
            [sys.executable, "-m", "coopsim.run.served"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._child:  # which closes the pipes and waits
            self._child.kill()

    def guess(self, requests: Path, low: int, high: int, context_bytes: int, *, part: float = 1.0) -> int | None:
        """Return the smallest memory that serves recorded requests; None if that fails.

        `requests` is the file (probes/requests.py). Searches between `low` and `high` bytes. `context_bytes` are what
        the context took of the card. `part` is the fraction of the card's memory that the allocator may use.
        """
        asked = {"requests": str(requests), "low": low, "high": high, "part": part, "context": context_bytes}
        said, _ = self._child.communicate(json.dumps(asked) + "\n")
        return int(said) if self._child.returncode == 0 and said.strip().isdecimal() else None
