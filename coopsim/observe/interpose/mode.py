"""A dispatch mode that the library calls below autograd, without being active."""

from typing import Any, Self

from coopsim.observe.interpose.library import load
from coopsim.observe.torch_private import TorchDispatchMode, get, included_keys, pop_mode, push_mode, replace

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
