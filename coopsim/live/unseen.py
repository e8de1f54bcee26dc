"""Watches the ways to a tensor's bytes that no dispatch mode sees, so that evicted tensors are restored first."""

from collections.abc import Callable
from typing import Any

import torch

from coopsim.live import refused

_READS = ("numpy", "data_ptr", "__dlpack__")
_SAVED = "saved_tensors"
_GRAPHS = ("capture_begin", "replay")


class Unseen:
    """Calls back, between `watch` and `forget`, before a tensor's bytes are read past the dispatcher.

    seen: called with a tensor whose address is asked for (`numpy`, `data_ptr`, `__dlpack__`). saved: called with each
    tensor that an autograd function written in Python has saved, when its backward asks for it: its kernels may read
    anything. CUDA graphs are refused.
    """

    def __init__(self, seen: Callable[[torch.Tensor], None], saved: Callable[[torch.Tensor], None]) -> None:
        self._seen, self._saved = seen, saved
        self._before: list[tuple[type, str, Any]] = []

    def watch(self) -> None:
        """Replace the methods that give access to bytes, in this process, until `forget`."""
        for name in _READS:
            self._replace(torch.Tensor, name, self._reading(getattr(torch.Tensor, name)))
        self._replace(torch.autograd.function.BackwardCFunction, _SAVED, property(self._unpack))
        for name in _GRAPHS:
            self._replace(torch.cuda.CUDAGraph, name, lambda *_, **__: refused.graphs())

    def forget(self) -> None:
        """Restore the methods that `watch` has replaced; does nothing if there are none."""
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
