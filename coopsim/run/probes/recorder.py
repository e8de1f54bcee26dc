"""The recorder of a script: which op runs in which module, what made each storage, and the time of every op."""

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from coopsim.phantom.control import Control
from coopsim.record.observe import describe
from coopsim.record.observe.costs import OpCostModel
from coopsim.record.observe.device import Device
from coopsim.record.observe.effects import tensors
from coopsim.record.observe.interpose.library import DESCRIBE, STREAM, DeviceCalls, load
from coopsim.record.observe.native import NativeLedger, NativeModules
from coopsim.record.observe.recorder import Recorder
from coopsim.record.observe.storages import Storage
from coopsim.record.observe.torch_private import (
    FAKE_MODE,
    FakeTensor,
    HigherOrderOperator,
    disabled_torch_dispatch,
    get_dispatch_mode,
    op_overload,
)
from coopsim.run.probes import clock

_kept: list[Any] = []  # callbacks of the library, which must stay alive
After = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]
Seen = Callable[[Any, tuple[Any, ...], dict[str, Any], Any, bool], None]


class ScriptRecorder(Recorder):
    """A recorder that also notes the running op, and the maker of each storage."""

    supports_higher_order_operators = True  # such as DTensor's random ops

    def __init__(self, device: Device, model: OpCostModel, clock_: clock.Clock) -> None:
        super().__init__(device, model)
        self._time = clock_
        self._running = "", ""
        self._seen: Seen | None = None
        self._after: After | None = None

    @property
    def running(self) -> tuple[str, str]:
        """The names of the op that began last and of its module; "" and "" before the first op."""
        return self.ledger.running() if self.native and isinstance(self.ledger, NativeLedger) else self._running

    @property
    def seen(self) -> "Seen | None":
        """A function that is called after every op with it, its arguments, its result, and whether it made a storage.

        Setting it sends every op to Python, until it is set to None.
        """
        return self._seen

    @seen.setter
    def seen(self, seen: "Seen | None") -> None:
        self._seen = seen
        all_to_python(seen is not None)

    def call_after(self, after: After) -> None:
        """From now on, call `after` when an op that comes to Python has run, with it, its arguments and its result."""
        self._after = after

    def watch_natively(self, control: Control, modules: list[str], *, for_python: Callable[[], frozenset[str]]) -> None:
        """Let the library watch ops by itself in this process; to be called before the recorder is entered.

        Each op's time goes to the phantom's clock, `control`; it is that of the cost model, which the library asks of
        Python once per op, or once per shapes. The caller makes sure that the library can be loaded. `modules` is the
        list in which modules get their numbers; `for_python` returns the names of ops that Python watches, and is
        asked when an op runs for the first time.
        """
        library: Any = load()
        pointers = (ctypes.cast(function, ctypes.c_void_p) for function in control.functions)
        device = DeviceCalls(STREAM(clock.stream), *pointers)
        said = DESCRIBE(_describer(for_python, self.cost_model))
        _kept[:] = device, said
        library.device(device)
        library.describe(said)
        self._time.tell(library.cost)
        self.where.keep_up_to_date(NativeModules(library, modules))
        self.native = True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if isinstance(func, HigherOrderOperator) or _is_fake(types):
            return func(*args, **kwargs or {})
        if any(t.__torch_dispatch__ is not disabled_torch_dispatch for t in types):
            return NotImplemented  # a wrapper such as a DTensor: its ops on the tensors within come here again
        maker = self._running = str(func), self.where.module()
        newest = self.ledger.newest
        takes_time = not clock.is_view(func)
        if takes_time:
            self._time.begin()
        out = super().__torch_dispatch__(func, types, args, kwargs)
        if takes_time:
            self._time.end(func, args, kwargs or {}, out, made=self.ledger.newest > newest)
        if self._after is not None:
            self._after(func, args, kwargs or {}, out)
        if self._seen is not None:
            self._seen(func, args, kwargs or {}, out, self.ledger.newest > newest)
        if self.ledger.newest > newest:
            for tensor in tensors(out):
                storage: Storage | None = self.ledger.of(tensor)
                if storage is not None and storage.serial > newest:
                    storage.maker = maker
        return out


def watch_resizes(recorder: Recorder) -> None:
    """From now on, let `recorder` know of UntypedStorage.resize_ on the GPU (Recorder.resize), which is no op.

    FSDP frees and reallocates layers with it.
    """
    resize = torch.UntypedStorage.resize_

    def resized(storage: Any, nbytes: int) -> Any:
        if storage.device.type != "cuda":
            return resize(storage, nbytes)
        return recorder.resize(storage, lambda: resize(storage, nbytes))

    torch.UntypedStorage.resize_ = resized  # type: ignore[method-assign, assignment]


def _is_fake(types: Any) -> bool:
    """Return whether it is an op of fake tensors, with which DTensor infers the shapes of its results."""
    mode = get_dispatch_mode(FAKE_MODE)
    return mode is not None or any(issubclass(kind, FakeTensor) for kind in types)


def _describer(for_python: Callable[[], frozenset[str]], model: OpCostModel) -> Callable[[bytes, bytes, Any], None]:
    def say(name: bytes, overload: bytes, found: Any) -> None:
        func = op_overload(name.decode(), overload.decode())
        if func is None:
            found.contents.flags = describe.FOR_PYTHON
        else:
            describe.describe(func, for_python(), model, found.contents)

    return say


def all_to_python(on: bool) -> None:
    """Set whether Python watches every op from now on, or only those that the library does not watch itself.

    Does nothing where the library cannot be loaded: Python watches every op then.
    """
    library: Any = load()
    if library is not None:
        library.all_to_python(on)
