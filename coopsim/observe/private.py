"""How private names of PyTorch are found: a table of them, and what stands in for one that this PyTorch lacks.

The table itself is torch_private.py. A name is a dotted path from `torch` on; after a colon, a word in the code of
a function: a local variable that is read from its frame, or a name that it asks objects for.
"""

import importlib
import inspect
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

from coopsim.types import CoopsimError

#: Releases in which every name was looked up; 2.13.0 is a build without CUDA, and 2.6.0 had no Triton of its time.
#: tests/observe/test_torch_private.py looks them up in the one that is installed.
SEEN_IN = ("2.6.0", "2.9.1", "2.12.1", "2.13.0", "2.14.1")


@dataclass(frozen=True)
class Name:
    """A private name of PyTorch.

    without: what does not work where it is missing, as the end of a message. since: the first of SEEN_IN in which it
    was seen; all later ones have it.
    """

    path: str
    without: str
    since: str = SEEN_IN[0]


NAMES: dict[str, Name] = {}  #: by path; torch_private.py fills it


class _Missing:
    """Stands for a name that this PyTorch lacks: whatever is done with it raises CoopsimError, which says its path."""

    def __init__(self, name: Name) -> None:
        self._name = name

    def _fail(self, *_: Any, **__: Any) -> NoReturn:
        import torch

        raise CoopsimError(f"PyTorch {torch.__version__} has no {self._name.path}: {self._name.without}")

    __call__ = __enter__ = __exit__ = __instancecheck__ = __mro_entries__ = __subclasscheck__ = _fail

    def __getattr__(self, attribute: str) -> NoReturn:
        self._fail(attribute)


def known(path: str, without: str, since: str = SEEN_IN[0]) -> None:
    """Enter a name that is spelled where it is used: a method, an attribute of an instance, or what loads late."""
    NAMES[path] = Name(path, without, since)


def now(path: str, without: str, since: str = SEEN_IN[0]) -> Any:
    """Enter a name and look it up; a stand-in that raises when it is used, if this PyTorch has none."""
    known(path, without, since)
    return get(path)


def get(path: str) -> Any:
    """What the name stands for now. Its module is imported if it has not been."""
    name = NAMES[path]
    try:
        return _find(path)
    except (AttributeError, ImportError):
        return _Missing(name)


def has(path: str) -> bool:
    """Whether this PyTorch has the name."""
    return not isinstance(get(path), _Missing)


def replace(path: str, by: Any) -> None:
    """Put something in the name's place. CoopsimError if this PyTorch has no such name."""
    found = get(path)
    if isinstance(found, _Missing):
        found()
    owner, _, attribute = path.rpartition(".")
    setattr(_find(owner), attribute, by)


def _find(path: str) -> Any:
    """The object at a dotted path. AttributeError or ImportError if there is none."""
    path, _, word = path.partition(":")
    found: Any = importlib.import_module("torch")
    parts = path.split(".")
    for i in range(1, len(parts)):
        if hasattr(found, parts[i]):
            found = getattr(found, parts[i])
        elif isinstance(found, ModuleType):  # not loaded, or loaded just now: its package does not show it yet
            found = importlib.import_module(".".join(parts[: i + 1]))
        elif isinstance(found, type) and parts[i] in _annotated(found):
            return None  # of every instance
        else:
            raise AttributeError(f"{found} has no {parts[i]}")
    if word and word not in _words(found):
        raise AttributeError(f"{path} has no {word}")
    return found


def _annotated(kind: type) -> set[str]:
    return {name for base in kind.__mro__ for name in inspect.get_annotations(base)}


def _words(function: Any) -> set[object]:
    """What the code of a function names: variables, attributes, texts."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = function.__code__
    return {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars, *code.co_consts}
