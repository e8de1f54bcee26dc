"""The device of a process that records with fake tensors. The guard must be loaded before this is imported."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from coopsim.capture.fake_guard import APPROXIMATIONS
from coopsim.observe import precision
from coopsim.observe.device import Device
from coopsim.observe.temporaries import History
from coopsim.observe.torch_private import FakeTensorMode


class _Mode(FakeTensorMode):  # type: ignore[no-untyped-call]
    @property
    def avoid_device_init(self) -> bool:
        """True: there is no device, although `is_available` says so, and not even constants can be computed on it."""
        return True


class FakeDevice(Device):
    """A device (observe/device.py) whose tensors on "cuda" are fake, within a `with` statement."""

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
        precision.assume_cudnn()
        self._mode.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._mode.__exit__(None, None, None)

    @property
    def header(self) -> dict[str, Any]:
        """The entries of the trace's header that describe the device."""
        return {"device": "none (fake tensors)", "card": self._card, "approximations": list(APPROXIMATIONS)}

    def value(self, func: Any, args: tuple[Any, ...]) -> Any:
        """Return 0 for a value that is read from the device, as on the phantom GPU, 1 for one from the host, else None.

        Tensors on the host are fake, too; their value is 1, because optimizers count steps in them, and divide by that.
        """
        if func is not torch.ops.aten._local_scalar_dense.default:
            return None
        return 0 if args[0].is_cuda else 1


#: The new parameter of each that was moved, so that one shared by two modules remains shared.
_moved = WeakIdKeyDictionary()


def _apply(module: nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> nn.Module:
    """Apply `fn` to a module's tensors; replaces nn.Module._apply, which swaps contents, as fake tensors cannot."""
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
