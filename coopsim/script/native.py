"""Let the C++ library watch a script's ops (observe/interpose): give it the prices of ops and the phantom's clock."""

import ctypes
from collections.abc import Callable
from typing import Any

from coopsim.observe import describe
from coopsim.observe.costs import CostModel
from coopsim.observe.interpose.library import DESCRIBE, STREAM, Device, load
from coopsim.observe.native import NativeModules
from coopsim.observe.torch_private import op_overload
from coopsim.observe.where import Where
from coopsim.phantom.control import Control
from coopsim.script.clock import Clock, stream

_kept: list[Any] = []  # callbacks of the library, which must stay alive


def install(
    control: Control, model: CostModel, clock: Clock, where: Where, modules: list[str], for_python: frozenset[str]
) -> None:
    """Configure the library for this process, so that it can watch ops by itself.

    Each op's time goes to the phantom's `clock`; it is that of `model`, which the library asks of Python once per op,
    or once per shapes. The caller makes sure that the library can be loaded. `modules` is the list in which modules get
    their numbers; `for_python` are the names of ops that Python watches.
    """
    library: Any = load()
    pointers = (ctypes.cast(function, ctypes.c_void_p) for function in control.functions)
    device = Device(STREAM(stream), *pointers)
    said = DESCRIBE(_describer(for_python, model))
    _kept[:] = device, said
    library.device(device)
    library.describe(said)
    clock.costed = library.cost
    where.native = NativeModules(library, modules)


def _describer(for_python: frozenset[str], model: CostModel) -> Callable[[bytes, bytes, Any], None]:
    def say(name: bytes, overload: bytes, found: Any) -> None:
        func = op_overload(name.decode(), overload.decode())
        if func is None:
            found.contents.flags = describe.FOR_PYTHON
        else:
            describe.describe(func, for_python, model, found.contents)

    return say


def all_to_python(on: bool) -> None:
    """Set whether Python watches every op from now on, or only those that the library does not watch itself.

    Does nothing where the library cannot be loaded: Python watches every op then.
    """
    library: Any = load()
    if library is not None:
        library.all_to_python(on)
