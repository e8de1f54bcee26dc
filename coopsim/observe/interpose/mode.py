"""A dispatch mode that is called below autograd, without being active."""

from typing import Any, Self

from coopsim.observe.interpose.library import load
from coopsim.observe.torch_private import TorchDispatchMode, get, included_keys, pop_mode, push_mode, replace

_EXTRACT = "torch._ops.key_extractor"  #: gives the dispatch keys of a call


class Interposed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every op that reaches the device but views, from `__enter__` to `__exit__`, and changes nothing by that.

    `native`: only those ops that the library does not watch itself. Where the library cannot be had it is `active`, as
    all modes are. `lifts`: it is also shown `lift_fresh`, which is a view, and what torch.tensor ends with.
    """

    active = False
    native = False
    lifts = False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch.compile compile: else it runs everything eagerly while a mode is active, and says nothing."""
        return True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """The same, before PyTorch asked the method above."""
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
    """From here on the kernel is called. Ops that are written in Python have none for its key, and are not to look."""
    before = included_keys()
    library.include(1)
    key = included_keys() - before
    if key == before - before:  # included already
        return
    extract = get(_EXTRACT)
    replace(_EXTRACT, lambda tensors, mask: extract(tensors, mask - key))
