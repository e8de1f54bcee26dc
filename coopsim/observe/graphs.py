"""Notice replays of CUDA graphs, whose kernels no dispatcher sees."""

from collections.abc import Callable
from typing import Any

import torch


def before_replay(call: Callable[[], None]) -> None:
    """Invoke `call` before every replay of a CUDA graph in this process, from now on; it cannot be undone."""
    original = torch.cuda.CUDAGraph.replay

    def replay(graph: Any) -> None:
        call()
        original(graph)

    torch.cuda.CUDAGraph.replay = replay  # type: ignore[method-assign, assignment]
