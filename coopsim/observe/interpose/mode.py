"""A dispatch mode that is called below autograd, without being active."""

from typing import Any, Self

from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from coopsim.observe.interpose.library import load


class Interposed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees, from `enter` to `exit`, what a mode would see that was entered first; the program goes as if unwatched."""

    def __enter__(self) -> Self:
        library = load()
        _python_dispatch._push_mode(self)
        try:
            library.coopsim_enter()
        finally:
            _python_dispatch._pop_mode()
        library.coopsim_include(1)
        return self

    def __exit__(self, *_: object) -> None:
        load().coopsim_leave()
