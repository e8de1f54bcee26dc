"""What libraries keep of parameters, gradients and buckets beside PyTorch's attributes, by the names that they give.

DeepSpeed's ZeRO and Megatron's optimizers wrap one of PyTorch's. They keep flat buffers and buckets in attributes of
the wrapper, and shards and gradients in attributes of parameters (`ds_tensor`, `main_grad`).
"""

from collections.abc import Iterator
from typing import Any

import torch

from coopsim.base.types import Role
from coopsim.record.observe.roles import Objects, within

BUCKET = "bucket"
#: What a tensor is by a part of its attribute's name, the first that applies; otherwise it is of parameters.
_BY_NAME: tuple[tuple[str, Role | str], ...] = (
    ("bucket", BUCKET),
    ("grad", Role.GRADIENT),
    ("momentum", Role.OPTIMIZER_STATE),
    ("exp_avg", Role.OPTIMIZER_STATE),
)


def held(objects: Objects) -> Iterator[tuple[Role | str, torch.Tensor]]:
    """Yield (role, or BUCKET; tensor) for the device's tensors in such attributes."""
    for parameter in objects.parameters():
        for name, value in vars(parameter).items():
            yield from _named(name, value)
    for module in objects.modules:
        for wrapper in filter(_wraps_an_optimizer, list(vars(module).values())):
            for name, value in list(vars(wrapper).items()):
                yield from _named(name, value)


def _wraps_an_optimizer(value: Any) -> bool:
    if isinstance(value, torch.Tensor | torch.nn.Module | torch.optim.Optimizer):
        return False
    return isinstance(getattr(value, "__dict__", {}).get("optimizer"), torch.optim.Optimizer)


def _named(name: str, value: Any) -> Iterator[tuple[Role | str, torch.Tensor]]:
    role = next((role for part, role in _BY_NAME if part in name), Role.PARAMETER)
    if role == BUCKET:
        buckets = value.values() if isinstance(value, dict) else [value]
        for bucket in buckets:
            for tensor in within(getattr(bucket, "buffer", bucket)):
                yield role, tensor
    else:
        for tensor in within(value):
            yield role, tensor
