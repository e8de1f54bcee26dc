"""Ways to a tensor's bytes that no dispatch mode sees: while a step runs, they bring back what was evicted first."""

from collections.abc import Callable
from typing import Any

import torch

from coopsim.live import refused

_READS = ("numpy", "data_ptr", "__dlpack__")
_SAVED = "saved_tensors"
_GRAPHS = ("capture_begin", "replay")


class Unseen:
    """Between `watch` and `forget`, `seen` is called with every tensor whose address is asked for.

    saved: is called with what an autograd function written in Python has saved, where its backward asks for that: who
    knows what its kernels read.
    """

    def __init__(self, seen: Callable[[torch.Tensor], None], saved: Callable[[torch.Tensor], None]) -> None:
        self._seen, self._saved = seen, saved
        self._before: list[tuple[type, str, Any]] = []

    def watch(self) -> None:
        """Begin."""
        for name in _READS:
            self._replace(torch.Tensor, name, self._reading(getattr(torch.Tensor, name)))
        self._replace(torch.autograd.function.BackwardCFunction, _SAVED, property(self._unpack))
        for name in _GRAPHS:
            self._replace(torch.cuda.CUDAGraph, name, lambda *_, **__: refused.graphs())

    def forget(self) -> None:
        """Let all be as it was."""
        for owner, name, own in self._before:
            if own is None:
                delattr(owner, name)  # it was inherited
            else:
                setattr(owner, name, own)
        self._before.clear()

    def _replace(self, owner: type, name: str, by: Any) -> None:
        self._before.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, by)

    def _reading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            self._seen(tensor)
            return original(tensor, *args, **kwargs)

        return read

    def _unpack(self, node: Any) -> Any:
        tensors = getattr(super(torch.autograd.function.BackwardCFunction, node), _SAVED)
        for tensor in tensors:
            if tensor is not None:
                self._saved(tensor)
        return tensors
