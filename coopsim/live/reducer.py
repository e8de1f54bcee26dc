"""What DistributedDataParallel compares past the dispatcher: gradients, and the buckets that it sends them in."""

from typing import Any

import torch

from coopsim.record.observe.torch_private import TorchDispatchMode


class _AsItIs(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Gives an op's operand in place of what the op would make."""

    def __torch_dispatch__(self, _func: Any, _types: Any, args: Any = (), _kwargs: Any = None) -> Any:
        return args[0]


def compared(reducer: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The buckets of a reducer, and the parameters whose gradients it compares with them in the backward pass.

    Not to be called from within one of its methods or hooks, which hold its lock. No other dispatch mode may be in the
    way that runs ops before Python's do.
    """
    with _AsItIs():  # type: ignore[no-untyped-call]
        buckets = reducer._get_zeros_like_grad_buckets()
    return [bucket.buffer() for bucket in buckets], [one for bucket in buckets for one in bucket.parameters()]
