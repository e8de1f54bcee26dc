"""Look up private names of PyTorch: how they are registered, and what stands in for one that this PyTorch lacks.

torch_private.py registers them all. A name is a dotted path that begins with `torch`. A part after a colon is a word in
a function's code: a local variable that is read from its frame, or an attribute that it looks up.
"""

import functools
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

from coopsim.base.types import NEWEST_TORCH, CoopsimError

#: Releases in which every name was looked up; 2.13.0 is a build without CUDA, and 2.6.0 had no Triton of its time.
#: tests/record/observe/test_torch_private.py looks them up in the one that is installed.
SEEN_IN = ("2.6.0", "2.9.1", "2.12.1", "2.13.0", "2.14.1", NEWEST_TORCH)


@dataclass(frozen=True)
class Name:
    """A private name of PyTorch.

    without: what does not work where it is missing, as the end of an error message. since: the first of SEEN_IN that
    has it; all later ones have it too.
    """

    path: str
    without: str
    since: str = SEEN_IN[0]


NAMES: dict[str, Name] = {}  #: all registered names, by path; torch_private.py fills it


class _Missing:
    """Stands for a name that this PyTorch lacks: any use raises CoopsimError with its path and purpose."""

    def __init__(self, name: Name) -> None:
        self._name = name

    def _fail(self, *_: Any, **__: Any) -> NoReturn:
        import torch

        raise CoopsimError(f"PyTorch {torch.__version__} has no {self._name.path}: {self._name.without}")

    __call__ = __enter__ = __exit__ = __instancecheck__ = __mro_entries__ = __subclasscheck__ = _fail

    def __getattr__(self, attribute: str) -> NoReturn:
        self._fail(attribute)


def known(path: str, without: str, since: str = SEEN_IN[0]) -> None:
    """Register a name without looking it up, for code that spells it itself: a method, an attribute of instances.

    The arguments are the fields of Name, here and in `now`: the path, what does not work without it, since when it is.
    """
    NAMES[path] = Name(path, without, since)


def now(path: str, without: str, since: str = SEEN_IN[0]) -> Any:
    """Register a name and return the object; if this PyTorch lacks it, a stand-in that raises CoopsimError on use."""
    known(path, without, since)
    return get(path)


def get(path: str) -> Any:
    """Return the object that a registered name stands for now, importing its module if necessary.

    If this PyTorch lacks it: a stand-in that raises CoopsimError on use. Raises KeyError if it is not registered.
    """
    name = NAMES[path]
    try:
        return _find(path)
    except (AttributeError, ImportError):
        return _Missing(name)


def has(path: str) -> bool:
    """Return whether this PyTorch has a registered name. Raises KeyError if it is not registered."""
    return not isinstance(get(path), _Missing)


def replace(path: str, by: Any) -> None:
    """Make a registered name stand for the object `by`, for all who look it up in PyTorch from now on.

    Raises CoopsimError if this PyTorch lacks the name, KeyError if it is not registered.
    """
    found = get(path)
    if isinstance(found, _Missing):
        found()
    owner, _, attribute = path.rpartition(".")
    setattr(_find(owner), attribute, by)


def hooked(original: Any, call: Callable[..., Any]) -> Any:
    """Return what takes the place of a function or method: it calls `call`, given the original and the arguments."""

    @functools.wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        return call(original, *args, **kwargs)

    return replaced


def around(path: str, call: Callable[..., Any]) -> None:
    """Let a registered name stand for a call of `call`, as in `hooked`. Raises as `replace`."""
    replace(path, hooked(get(path), call))


def _find(path: str) -> Any:
    """Return the object at a dotted path. Raises AttributeError or ImportError if there is none.

    An attribute that only instances have, by their class's annotations, is found as None.
    """
    path, _, word = path.partition(":")
    import torch

    found: Any = torch
    parts = path.split(".")
    for i in range(1, len(parts)):
        if hasattr(found, parts[i]):
            found = getattr(found, parts[i])
        elif isinstance(found, ModuleType):  # a submodule that is not imported, or that its package has not bound yet
            found = importlib.import_module(".".join(parts[: i + 1]))
        elif isinstance(found, type) and parts[i] in _annotated(found):
            return None  # an attribute of instances
        else:
            raise AttributeError(f"{found} has no {parts[i]}")
    if word and word not in _words(found):
        raise AttributeError(f"{path} has no {word}")
    return found


def _annotated(kind: type) -> set[str]:
    return {name for base in kind.__mro__ for name in inspect.get_annotations(base)}


def _words(function: Any) -> set[object]:
    """Return the words in a function's code: names of variables and attributes, and constants."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = function.__code__
    return {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars, *code.co_consts}
