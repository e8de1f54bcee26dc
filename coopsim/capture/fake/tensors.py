"""Inside the process that records with fake tensors. The guard must be loaded before this is imported."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from coopsim.capture.fake import APPROXIMATIONS
from coopsim.observe.temporaries import History
from coopsim.observe.torch_private import FakeTensorMode


class _Mode(FakeTensorMode):  # type: ignore[no-untyped-call]
    @property
    def avoid_device_init(self) -> bool:
        """There is no device, though `is_available` says so: nothing may be computed on it, not even constants."""
        return True


class FakeDevice:
    """A place to run (observe/device.py): tensors on "cuda" that are not there, in a `with` statement."""

    has_a_mode = True

    def __init__(self, card: str) -> None:
        self.history = History(available=False)
        self._card = card
        self._mode = _Mode(allow_non_fake_inputs=True)

    def __enter__(self) -> Self:
        nn.Module._apply = _apply  # type: ignore[method-assign]
        torch.cuda.is_available = lambda: True
        torch.cuda.is_bf16_supported = lambda *_, **__: True
        torch.backends.cudnn.enabled = False  # its recurrent layers have no fake kernel
        self._mode.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._mode.__exit__(None, None, None)

    @property
    def header(self) -> dict[str, Any]:
        """What the trace's header says of it."""
        return {"device": "none (fake tensors)", "card": self._card, "approximations": list(APPROXIMATIONS)}

    def stream(self) -> int:
        """The default one is the only one."""
        return 0

    def clear(self, _: torch.Tensor) -> None:
        """There are no data."""

    def value(self, func: Any, args: tuple[Any, ...]) -> Any:
        """A value that is read from the device is 0, as on the phantom GPU.

        Tensors of the host are fake too; theirs is 1, because optimizers divide by what they count in them.
        """
        if func is not torch.ops.aten._local_scalar_dense.default:
            return None
        return 0 if args[0].is_cuda else 1

    def collective(self) -> None:
        """There is no NCCL."""

    def steady(self) -> None:
        """There is no cache."""

    def layout(self) -> list[dict[str, Any]]:
        """Memory has no addresses."""
        return []

    def requested_bytes(self) -> int:
        """There is no allocator to ask."""
        return 0

    def peaks(self) -> dict[str, int]:
        """Nor has it peaks."""
        return {}


#: Which parameter has become which: one that two modules share must stay one.
_moved = WeakIdKeyDictionary()


def _apply(module: nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> nn.Module:
    """In place of nn.Module._apply, which swaps the contents of tensors: that cannot be done with fake ones."""
    if recurse:
        for child in module.children():
            child._apply(fn)  # type: ignore[no-untyped-call]
    for name, parameter in module._parameters.items():
        if parameter is None:
            continue
        with torch.no_grad():
            moved = fn(parameter)
        if moved is not parameter:
            if parameter not in _moved:
                _moved[parameter] = nn.Parameter(moved, parameter.requires_grad)
            module._parameters[name] = _moved[parameter]
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = fn(buffer)
    return module
