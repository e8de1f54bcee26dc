"""Find the smallest memory in which a program fits: a search over multiples of 2 MiB, helped by a guess."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from coopsim import phantom

#: What cudaMalloc hands out is a multiple of this.
STEP = 2 << 20


def smallest(fits: Callable[[int], bool], low: int, high: int, guess: int | None = None) -> tuple[int, int]:
    """A multiple of 2 MiB that fits while 2 MiB less does not, and how often `fits` was asked.

    Below `low` nothing fits, and `high` does. Every claim is made by `fits` itself, except those two. A good guess
    needs two questions; without one it takes the logarithm of the distance.
    """
    failing, fitting = (low - 1) // STEP, -(-high // STEP)
    asked, stride = 0, 1
    at = min(max(guess // STEP, failing + 1), fitting - 1) if guess else (failing + fitting) // 2
    near = guess is not None
    while fitting - failing > 1:
        asked += 1
        if fits(at * STEP):
            fitting, toward = at, -1
        else:
            failing, toward = at, 1
        at = at + toward * stride if near else (failing + fitting) // 2
        stride *= 2
        if not failing < at < fitting:
            near, at = False, (failing + fitting) // 2
    return fitting * STEP, asked


def guess(card: str, requests: Path, low: int, high: int) -> int | None:
    """Where the allocator alone, asked for the same again, comes to its end; None if that cannot be told."""
    command = [sys.executable, "-m", "coopsim.script.probe", str(requests), str(low), str(high)]
    variables = os.environ | phantom.environment(card, total_bytes=high)
    child = subprocess.run(command, env=variables, check=False, capture_output=True, text=True)  # noqa: S603
    return int(child.stdout) if child.returncode == 0 and child.stdout.strip().isdecimal() else None
