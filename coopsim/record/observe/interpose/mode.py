"""A dispatch mode that the library calls below autograd, without being active."""

import functools
import sys
from collections.abc import Callable
from typing import Any, Self

import torch

from coopsim.record.observe.interpose.library import load
from coopsim.record.observe.torch_private import TorchDispatchMode, get, included_keys, pop_mode, push_mode, replace

_DYNAMO = "torch._dynamo"
_EXTRACT = "torch._ops.key_extractor"  #: computes the dispatch keys of a call


class Interposed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that sees every op on the device except views, between `__enter__` and `__exit__`, and changes none.

    With `native` it sees only the ops that the library does not watch itself, with `lifts` also `lift_fresh`, the end
    of torch.tensor. Where the library is not available, it is `active`, an ordinary dispatch mode; then it sees views
    too, and autograd avoids in-place ops.
    """

    active = False
    native = False
    lifts = False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True: torch.compile is to compile under this mode. Otherwise PyTorch silently runs all eagerly."""
        return True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Return True, for the same end: older versions of PyTorch ask this instead of `ignore_compile_internals`."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: PyTorch would import Dynamo at the first op, which takes as long as the rest of PyTorch."""
        return False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()  # type: ignore[no-untyped-call]
        if "__torch_dispatch__" in vars(cls):
            cls.__torch_dispatch__ = _never_compiled(cls.__torch_dispatch__)  # type: ignore[method-assign]

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._library = None if self.active else load()
        self.active = self._library is None

    def __enter__(self) -> Self:
        library = self._library
        if library is None:
            super().__enter__()  # type: ignore[no-untyped-call]
            return self
        push_mode(self)
        library.enter(self.native, self.lifts)
        library.tell()
        pop_mode()
        _include(library)
        return self

    def __exit__(self, *error: object) -> None:
        if self._library is None:
            super().__exit__(*error)  # type: ignore[no-untyped-call]
        else:
            self._library.leave()


def _never_compiled(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does the same, and that Dynamo does not compile once the program has imported it."""
    disabled = None

    @functools.wraps(call)
    def __torch_dispatch__(*args: Any, **kwargs: Any) -> Any:  # noqa: N807  (accumulation.py knows it)
        nonlocal disabled
        if disabled is None and hasattr(sys.modules.get(_DYNAMO), "disable"):
            disabled = torch.compiler.disable(call)  # type: ignore[no-untyped-call]
        return (disabled or call)(*args, **kwargs)

    return __torch_dispatch__


def _include(library: Any) -> None:
    """Include the library's dispatch key on this thread, so that its kernel is called.

    Ops that are written in Python (higher-order ops) have no kernel for the key and would raise: it is masked there.
    """
    before = included_keys()
    library.include(1)
    key = included_keys() - before
    if key == before - before:  # included already
        return
    extract = get(_EXTRACT)
    replace(_EXTRACT, lambda tensors, mask: extract(tensors, mask - key))
