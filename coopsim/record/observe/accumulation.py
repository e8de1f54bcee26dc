"""Accumulate gradients in place, as autograd does when no dispatch mode is active.

Where several gradients flow into one value, autograd adds each to the sum so far: in place, if nothing else holds the
sum, but never while a dispatch mode is active (torch/csrc/autograd/input_buffer.cpp: can_accumulate_inplace). Where the
library below autograd cannot be compiled (interpose/), the recorder is such a mode, and would make the program allocate
memory that it otherwise does not. So the recorder does in place what autograd would have done in place.

Known limits: a backward formula in C++ whose first operation is `gradient + x` is taken for such a sum (none of
PyTorch's layers has one), and a node that gives two gradients to one value (x * x) is not. Autograd also avoids working
in place under a mode in the backward formulas of max and median over a dimension, gather and cumprod; there it still
does under this recorder.
"""

import sys
from types import FrameType
from typing import Any

import torch

from coopsim.record.observe.torch_private import current_autograd_node, current_graph_task_id, storage_use_count

ADD, ADD_IN_PLACE = torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor

#: References to a tensor that only autograd's buffer holds, as seen from a dispatch mode: the buffer's, the call's two
#: and Python's. The same in torch 2.6 and 2.14.
_SOLE_HOLDER = 4


def _storage_references(tensor: torch.Tensor) -> int:
    return storage_use_count(tensor.untyped_storage()._cdata)


#: Modules of torch whose frames may stand between an op and __torch_dispatch__.
_WRAPPERS = ("torch._compile", "torch._dynamo.eval_frame", "torch.utils._python_dispatch")

#: Use count of a storage that one tensor holds. Whether Python's object of the storage counts depends on the version.
_ONE_TENSOR = _storage_references(torch.empty(1))


def _dense(tensor: torch.Tensor) -> bool:
    """Return whether the tensor is non-overlapping and dense. torch's own check is private and was renamed."""
    span = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != span:
            return False
        span *= size
    return True


def node() -> int | None:
    """Return the sequence number of the autograd node that runs on this thread; None outside of a backward pass."""
    if current_graph_task_id() == -1:
        return None
    current = current_autograd_node()
    return None if current is None else int(current._sequence_nr())


def _called_from_python() -> bool:
    """Return whether a Python frame, as of a user's Function.backward, is between autograd's engine and the op."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and (
        frame.f_code.co_name == "__torch_dispatch__" or frame.f_globals["__name__"] in _WRAPPERS
    ):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name != "_engine_run_backward"


def adds_up(args: tuple[Any, ...], born_in: int | None) -> bool:
    """Return whether a call of aten.add.Tensor is autograd's sum of gradients, in place if no mode were active.

    To be called from within __torch_dispatch__, with its `args`: the check counts references, of which another caller
    would hold more. `born_in` is the autograd node that made args[0], None if no node did.
    """
    if current_graph_task_id() == -1 or torch.is_grad_enabled():
        return False
    if _called_from_python():
        return False
    total, more = args[:2]
    return (
        isinstance(more, torch.Tensor)
        and total.layout is torch.strided
        and total.shape == more.shape
        and total.dtype == more.dtype
        and _dense(total)
        and total._use_count() == _SOLE_HOLDER
        and _storage_references(total) == _ONE_TENSOR
        and born_in != node()
    )
