"""CUDA graphs that a program replays, of whose kernels no dispatcher sees anything."""

from collections.abc import Callable
from typing import Any

import torch


def before_replay(told: Callable[[], None]) -> None:
    """From now on `told` is called before each."""
    original = torch.cuda.CUDAGraph.replay

    def replay(graph: Any) -> None:
        told()
        original(graph)

    torch.cuda.CUDAGraph.replay = replay  # type: ignore[method-assign, assignment]
