"""Advance the phantom's clock (phantom/csrc/clock.c) for what host and card do, whatever the speed of this machine.

An op that PyTorch dispatches takes a constant time on the host, a view none; its kernels take its cost on the
current stream. Of kernels that the dispatcher does not see, those of Inductor cost the bytes of their operands, and
others the least time of a kernel.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

from coopsim.phantom.control import Control, expect_watchdogs
from coopsim.record.observe import effects, inductor, torch_private
from coopsim.record.observe.costs import OpCostModel
from coopsim.record.observe.describe import COLLECTIVES
from coopsim.record.observe.native import memory
from coopsim.record.observe.torch_private import current_device, raw_stream
from coopsim.run.probes.imports import after_import

_MAKE_GROUP = "torch.distributed.distributed_c10d._new_process_group_helper"


class Clock:
    """Reports ops, Inductor's kernels and sleeps to the phantom's clock, from now to the end of the process."""

    def __init__(self, control: Control, model: OpCostModel) -> None:
        self._control, self._model = control, model
        self._groups = 0
        self._costed: Callable[[int], object] = lambda _: None
        self.begin: Callable[[], None] = control.op_begins
        after_import(inductor.LAUNCHER, lambda _: inductor.around_kernels(self._kernel))
        if torch.distributed.is_available():
            self._distributed()
        _counted_sleep(control)

    def tell(self, costed: Callable[[int], object]) -> None:
        """From now on, call `costed` with the time of each op."""
        self._costed = costed

    def end(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, *, made: bool) -> None:
        """Add the time of an op, which has run and for which `begin` was called before it, to the current stream.

        `made`: whether it made a storage.
        """
        cost = self._cost(func, args, kwargs, out, made)
        self._control.op_ends(stream(), cost)
        self._costed(cost)

    def _cost(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, made: bool) -> int:
        if not hasattr(func, "_schema") or func._schema.name.startswith(COLLECTIVES):
            return 0
        named = effects.arguments(func, args, kwargs)
        changed = effects.mutated(func, named)
        if not made and not changed:
            return 0
        moved = sum(nbytes(value) * (2 if name in changed else 1) for name, value in named.items())
        moved += nbytes(out) if made else 0
        if not moved:
            return 0  # all operands are in the host's memory
        return self._model.nanoseconds(str(func), self._model.call(func, args, kwargs, named, out, moved))

    def _kernel(self, launch: Callable[[], Any], _: Any, args: Sequence[Any]) -> Any:
        self.begin()
        out = launch()
        self._control.op_ends(stream(), self._model.moving(nbytes(args)))
        return out

    def _distributed(self) -> None:
        """Tell the phantom to expect a watchdog thread for each process group that uses NCCL."""

        def made(make: Any, *args: Any, **kwargs: Any) -> Any:
            group, store = make(*args, **kwargs)
            self._groups += _has_nccl(group)
            expect_watchdogs(self._groups)
            return group, store

        torch_private.around(_MAKE_GROUP, made)


def is_view(func: Any) -> bool:
    """Return whether a result of the op is a view of an argument, so that the op takes no time; by its schema."""
    return hasattr(func, "_schema") and _is_view(func)


@cache
def _is_view(func: Any) -> bool:
    returned = [r.alias_info for r in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)


def stream() -> int:
    """Return the handle of the current stream; 0 for the default stream, and before CUDA is initialized."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return 0
    return raw_stream(current_device())


def nbytes(value: Any) -> int:
    """Return the bytes of all tensors in a value, each at most those of its storage."""
    return sum(min(t.numel() * t.element_size(), memory(t)[1]) for t in effects.tensors(value))


def _has_nccl(group: Any) -> bool:
    if os.environ.get("TORCH_NCCL_BLOCKING_WAIT", "0") not in ("0", ""):
        return False  # the host waits for each collective, and NCCL has no watchdog
    try:
        return bool(group._get_backend(torch.device("cuda")).name() == "nccl")
    except (AttributeError, RuntimeError):
        return False


def _counted_sleep(control: Control) -> None:
    """Add time.sleep of the main thread, which launches the kernels, to the host's time."""

    def counted(sleep: Callable[[float], None], seconds: float) -> None:
        if threading.current_thread() is threading.main_thread():
            control.host_is_busy(max(0, round(seconds * 1e9)))
        sleep(seconds)

    time.sleep = torch_private.hooked(time.sleep, counted)
