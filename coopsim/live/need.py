"""The bytes of an op's results, before it runs."""

from collections.abc import Sequence
from typing import Any

import torch

from coopsim.live.cells import change, on_device
from coopsim.observe.torch_private import DisableAutocast, DisableTorchDispatch, DispatchBelowAutograd


def of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kind: str, given: Sequence[torch.Tensor]) -> int:
    """The bytes of an op's results on devices of type `kind` ("cuda" or "cpu"), by a run on the device `meta`.

    given: its operands on the device. Where it cannot run on `meta`, the bytes of the largest operand.
    """

    def bare(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != kind:
            return tensor
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")

    def there(device: torch.device) -> torch.device:
        return torch.device("meta") if device.type == kind else device

    try:
        with DisableTorchDispatch(), DispatchBelowAutograd(), DisableAutocast():
            plain = change(args, torch.Tensor, bare), change(kwargs, torch.Tensor, bare)
            named = change(plain[1], torch.device, there)
            if not given:
                named["device"] = torch.device("meta")
            out = func(*plain[0], **named)
    except Exception:  # sizes that hang on data, ops without a formula: what the largest operand has is the guess
        return max((t.untyped_storage().nbytes() for t in given), default=0)
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in on_device("meta", (out,))}.values())
