"""Which variables of the user's refer to tensors that should be gone: found from the frames and modules downwards.

Looked at are the variables of all functions of the user's that are under way and of the user's modules, and what they
refer to: containers, attributes of objects and of the user's classes, slots, closures, defaults of arguments, hooks,
caches of functions, generators, the frames of kept exceptions. What only C++ refers to is not found; what a tensor's
autograd graph keeps is counted by the graph's nodes.
"""

import contextlib
import functools
import gc
import inspect
import itertools
import sys
import threading
import types
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from coopsim.record.observe.effects import tensors
from coopsim.record.observe.native import memory
from coopsim.run.probes.places import changed_at, is_own
from coopsim.run.records_memory import Holder

_OBJECTS = 200_000  #: at most, that are visited
_NODES = 20_000  #: of a graph, that are counted
_NAMED = 3
#: Objects of C that hold others: iterators that repeat, the caches of functions.
_OF_C = (type(functools.cache(len)), itertools.cycle, itertools.chain, itertools.islice, map, filter, zip, enumerate)


@dataclass
class _Count:
    kind: str
    file: str
    tensors: int = 0
    bytes: int = 0
    own_bytes: int = 0
    nodes: int = 0


class Holders:
    """Looks for holders again and again: a tensor or a graph that is larger than at the last look is one, too.

    `ledger` has the program's storages.
    """

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self._before: dict[str, _Count] = {}

    def look(self, kept: Collection[int] = ()) -> tuple[Holder, ...]:
        """Return the three variables that hold most now, the most bytes first; () if there are none.

        A variable counts if it refers to a tensor whose storage has a serial in `kept`, or if its tensors or its
        autograd graph are larger than at the last call.
        """
        now = self._count(kept)
        found = [holder for name, count in now.items() if (holder := self._holder(name, count)) is not None]
        self._before = now
        found.sort(key=lambda h: (-h.bytes, -h.nodes, h.name))
        return tuple(found[:_NAMED])

    def _holder(self, name: str, count: _Count) -> Holder | None:
        before = self._before.get(name)
        nodes = count.nodes if before is not None and count.nodes > before.nodes else 0
        larger = before is not None and count.own_bytes > before.own_bytes
        if not (count.tensors or nodes or larger):
            return None
        nbytes = count.bytes if count.tensors else count.own_bytes if larger else 0
        return Holder(name, count.kind, changed_at(count.file, name), count.tensors, nbytes, nodes)

    def _count(self, kept: Collection[int]) -> dict[str, _Count]:
        """Of each variable's or attribute's tensors: kept ones and their bytes, all bytes, nodes of their graphs."""
        counts: dict[str, _Count] = {}
        for path, tensor in named_tensors():
            count = counts.setdefault(path.name, _Count(path.kind, path.file))
            for part in tensors(tensor):
                _, nbytes = memory(part)
                storage = self._ledger.of(part)
                count.own_bytes += nbytes
                if storage is not None and storage.serial in kept:
                    count.tensors += 1
                    count.bytes += nbytes
            if tensor.grad_fn is not None and count.nodes < _NODES:
                count.nodes += _graph(tensor)
        return counts


@dataclass(frozen=True)
class Path:
    """How an object was reached: by a variable or an attribute of one, of this type, in this file.

    `inside`: through a container, whose name stands for all that it holds.
    """

    name: str
    kind: str
    file: str
    inside: bool = False

    def into(self) -> "Path":
        """The path to what a container holds."""
        return replace(self, inside=True)

    def to(self, attribute: str, value: Any) -> "Path":
        """The path to an attribute."""
        return self if self.inside else Path(f"{self.name}.{attribute}", type(value).__name__, self.file)


def named_tensors() -> Iterator[tuple["Path", torch.Tensor]]:
    """Every tensor that the user's variables refer to, once, and how it is reached."""
    seen: set[int] = set()
    todo: deque[tuple[Any, Path]] = deque()
    for file, variables in _roots():
        named = {name: value for name, value in variables.items() if not name.startswith("__")}
        todo.extend((value, Path(name, type(value).__name__, file)) for name, value in named.items())
    while todo and len(seen) < _OBJECTS:
        value, path = todo.popleft()
        if id(value) in seen or isinstance(value, _LEAVES):
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            yield path, value
        else:
            todo.extend(_below(value, path))


_LEAVES = (
    *(str, bytes, int, float, complex, bool, type(None), types.ModuleType, types.BuiltinFunctionType),
    *(torch.dtype, torch.device, torch.Size, types.CodeType),
)


def _roots() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The variables of the user's functions that are under way, innermost first, then those of the user's modules."""
    frames = [sys._getframe(1)]
    if threading.current_thread() is not threading.main_thread():
        main = sys._current_frames().get(threading.main_thread().ident or 0)
        frames += [main] if main is not None else []
    for start in frames:
        frame: types.FrameType | None = start
        while frame is not None:
            if is_own(frame.f_code.co_filename):
                yield frame.f_code.co_filename, _variables(frame)
            frame = frame.f_back
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and is_own(file):
            yield file, dict(vars(module))


def _variables(frame: types.FrameType) -> dict[str, Any]:
    """The variables of a frame, of which nothing is kept in it.

    Until Python 3.12 a function's frame keeps the dictionary that f_locals returns, and so the values that it had: the
    dictionary is emptied, unless the program has it, too, from locals().
    """
    there = frame.f_locals
    found = dict(there)
    if (
        isinstance(there, dict)
        and frame.f_code.co_flags & inspect.CO_OPTIMIZED
        and sys.getrefcount(there) <= _OWN_REFERENCES
    ):
        there.clear()
    return found


#: To the dictionary of a frame: the frame's, ours, that of the call which counts.
_OWN_REFERENCES = 3


def _below(value: Any, path: Path) -> Iterator[tuple[Any, Path]]:
    """What an object refers to: a container's items, attributes, what a function's closure has, frames of errors."""
    if isinstance(value, Mapping):
        try:
            yield from [(below, path.into()) for below in list(value.values())]
        except Exception:  # a mapping of the user's
            return
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from [(below, path.into()) for below in list(value)]
    elif isinstance(value, type):
        if _is_users(value):
            yield from [(below, path.to(name, below)) for name, below in list(vars(value).items())]
        return
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        if frame is not None and is_own(frame.f_code.co_filename):
            yield from _named_by(_variables(frame), frame.f_code.co_filename)
        elif frame is not None:
            yield from [(below, path.into()) for below in _variables(frame).values()]
    elif isinstance(value, _OF_C):
        yield from [(below, path.into()) for below in gc.get_referents(value) if not isinstance(below, type)]
    elif isinstance(value, types.MethodType):
        yield value.__self__, path
    elif isinstance(value, functools.partial):
        yield from [(below, path.into()) for below in (value.func, *value.args, *value.keywords.values())]
    elif isinstance(value, BaseException):
        trace = value.__traceback__
        while trace is not None:
            yield from [(below, path.into()) for below in _variables(trace.tb_frame).values()]
            trace = trace.tb_next
    for klass in type(value).__mro__:
        for name, slot in list(vars(klass).items()) if "__slots__" in vars(klass) else ():
            if isinstance(slot, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # not set
                    below = slot.__get__(value)
                    yield below, path.to(name, below)
    own = getattr(value, "__dict__", None)
    for attribute, below in list(own.items()) if isinstance(own, dict) else ():
        if isinstance(value, torch.nn.Module) and attribute in ("_modules", "_parameters", "_buffers"):
            yield from [(part, path.to(name, part)) for name, part in list((below or {}).items())]
        else:
            yield below, path.to(attribute, below)


def _of_function(function: types.FunctionType) -> Iterator[tuple[Any, Path]]:
    """What a function's closure has, and the defaults of its arguments."""
    code = function.__code__
    variables: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # empty
            variables[name] = cell.cell_contents
    defaults = function.__defaults__ or ()
    positional = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    variables |= dict(zip(positional, defaults, strict=True)) | (function.__kwdefaults__ or {})
    yield from _named_by(variables, code.co_filename)


def _named_by(variables: Mapping[str, Any], file: str) -> Iterator[tuple[Any, Path]]:
    yield from [(value, Path(name, type(value).__name__, file)) for name, value in list(variables.items())]


def _is_users(of: type) -> bool:
    """Whether a class is of one of the user's modules."""
    file = getattr(sys.modules.get(of.__module__), "__file__", None)
    return isinstance(file, str) and is_own(file)


def _graph(tensor: torch.Tensor) -> int:
    """How many nodes the tensor's autograd graph has, counted to _NODES."""
    seen = {tensor.grad_fn}
    todo = [tensor.grad_fn]
    while todo and len(seen) < _NODES:
        node = todo.pop()
        for following, _ in node.next_functions if node is not None else ():
            if following is not None and following not in seen:
                seen.add(following)
                todo.append(following)
    return len(seen)
