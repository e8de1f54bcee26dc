"""What a user's policy depends on, as a hash: its code, and every value that its code can read, as they are now.

Code reads default arguments, closures, globals, attributes of modules, other functions and classes with all that these
read, and the state of objects. What belongs to an installed package counts by name and version. What only running the
code would show (files, the time, `getattr`), and objects that cannot be taken apart, cannot be known.
"""

import functools
import hashlib
import importlib
import os
import random
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

from coopsim.simulate.policies._code import DYNAMIC, UNKNOWABLE, globals_of, imports_of, is_local

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))


class Reads:
    """The hash of something and of all that it reads.

    unknown: what of it cannot be known, in words; empty if all is. dispatchers: functions that Numba compiles, those
    that others call first.
    """

    def __init__(self, it: Any) -> None:
        self.unknown = ""
        self.dispatchers: list[Any] = []
        self._parts: dict[str, bytes] = {}  # the hash so far, after each value that has a name
        self._seen: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no id is used twice
        self._hash = hashlib.sha256(f"{sys.version_info[:2]}".encode())
        self._walk(it)
        self.digest = self._hash.hexdigest()[:32]

    def changed_since(self, before: "Reads") -> str:
        """The first name behind which something has changed; empty if nothing has."""
        if self.digest == before.digest:
            return ""
        changed = (name for name, digest in before._parts.items() if self._parts.get(name) != digest)
        return next(changed, "something")

    def _named_value(self, kind: str, name: str, walk: Callable[[Any], None], value: Any) -> None:
        self._put(kind, name)
        walk(value)
        self._parts.setdefault(name, self._hash.digest())

    def _put(self, *words: object) -> None:
        for word in words:
            text = str(word).encode(errors="surrogatepass")
            self._hash.update(b"%d:" % len(text) + text)

    def _cannot_know(self, what: str) -> None:
        self.unknown = self.unknown or what

    def _walk(self, it: Any) -> None:
        if isinstance(it, _PLAIN) and type(it) in _PLAIN:
            self._put(type(it).__name__, repr(it))
            return
        if type(it) in _EQUAL_ANYWHERE:  # which of them are one object differs from process to process
            _EXACTLY[type(it)](self, it)
            return
        if id(it) in self._seen:
            self._put("again", self._seen[id(it)])
            return
        self._seen[id(it)] = len(self._seen)
        self._alive.append(it)
        if walk := _EXACTLY.get(type(it)):
            walk(self, it)
            return
        for kinds, walk in _KINDS:
            if isinstance(it, kinds):
                walk(self, it)
                return
        if (numpy := sys.modules.get("numpy")) and isinstance(it, numpy.ndarray):
            self._array(it)
        elif hasattr(it, "recompile") and hasattr(it, "py_func"):
            self._all("compiled", [it.py_func, getattr(it, "targetoptions", None)])
            self.dispatchers.append(it)
        elif callable(it) and isinstance(getattr(it, "__name__", None), str) and not is_local(None, _module_of(it)):
            self._named(it)
        else:
            self._object(it)

    def _all(self, kind: str, them: Iterable[Any]) -> None:
        them = list(them)
        self._put(kind, len(them))
        for it in them:
            self._walk(it)

    def _unordered(self, kind: str, them: Iterable[Any]) -> None:
        """A set: in the order of the members' own hashes."""
        members = [Reads(it) for it in them]
        self._put(kind, *sorted(m.digest for m in members))
        self.unknown = self.unknown or next((m.unknown for m in members if m.unknown), "")

    def _dict(self, it: dict[Any, Any]) -> None:
        self._all("dict", [x for pair in it.items() for x in pair])

    def _array(self, it: Any) -> None:
        self._put("array", it.dtype, it.shape)
        if it.dtype.hasobject:
            self._all("objects", it.ravel().tolist())
        else:
            self._hash.update(it.tobytes())

    def _code(self, code: types.CodeType) -> None:
        self._put("code", code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags)
        self._put(code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self._put(getattr(code, "co_exceptiontable", b"").hex())
        self._all("constants", code.co_consts)

    def _function(self, it: types.FunctionType) -> None:
        if not is_local(it.__code__.co_filename, it.__module__):
            self._named(it)
            return
        self._walk(it.__code__)
        self._all("defaults", [it.__defaults__, it.__kwdefaults__, dict(it.__dict__)])
        for name, cell in zip(it.__code__.co_freevars, it.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            self._named_value("closure", name, self._walk, value)
        read = functools.partial(self._value, it.__code__)
        for name in globals_of(it.__code__):
            if name in it.__globals__:
                self._named_value("global", name, read, it.__globals__[name])
            if name in DYNAMIC:
                self._cannot_know(f"what {name} gives in {it.__qualname__}")
        for name, level in imports_of(it.__code__):
            if level:
                self._cannot_know(f"a relative import in {it.__qualname__}")
                continue
            try:
                self._put("import", name)
                read(importlib.import_module(name))
            except Exception:
                self._cannot_know(f"the import of {name} in {it.__qualname__}")

    def _value(self, code: types.CodeType, it: Any) -> None:
        """A value that the code names: of a module, what the code may read of it."""
        if not isinstance(it, types.ModuleType):
            self._walk(it)
            return
        self._put("module", it.__name__, getattr(it, "__version__", ""))
        own = is_local(getattr(it, "__file__", ""), it.__name__)
        for name in globals_of(code):
            value = vars(it).get(name, self)
            if isinstance(value, types.ModuleType):  # of packages some are loaded only when somebody asks for them
                if own and id(value) not in self._seen:
                    self._seen[id(value)] = len(self._seen)
                    self._alive.append(value)
                    self._value(code, value)
            elif value is not self:
                self._named_value("attribute", name, self._walk, value)
            elif own and hasattr(it, "__getattr__"):
                self._cannot_know(f"what {it.__name__} answers for {name}")

    def _method(self, it: types.MethodType) -> None:
        self._all("method", [it.__func__, it.__self__])

    def _partial(self, it: Any) -> None:
        self._all("partial", [it.func, it.args, it.keywords])

    def _class(self, it: type) -> None:
        file = getattr(sys.modules.get(it.__module__), "__file__", "")
        if not is_local(file, it.__module__):
            self._named(it)
            return
        self._put("class", it.__qualname__)
        self._all("bases", it.__bases__)
        for name, value in vars(it).items():
            if name not in _OF_CLASSES:
                self._named_value("attribute", name, self._walk, value)

    def _descriptor(self, it: Any) -> None:
        self._all(type(it).__name__, [getattr(it, part, None) for part in ("__func__", "fget", "fset", "func")])

    def _named(self, it: Any) -> None:
        """What belongs to a package, or to Python: by its name."""
        module, name = _module_of(it) or "builtins", getattr(it, "__qualname__", None) or it.__name__
        top = sys.modules.get(module.partition(".")[0])
        self._put("named", module, name, getattr(top, "__version__", ""))
        if name in UNKNOWABLE.get("os" if module == "posix" else module, ()):
            self._cannot_know(f"what {name} gives")
        if (module, name) == ("os", "getenv"):
            self._walk(dict(os.environ))

    def _builtin(self, it: Any) -> None:
        owner = getattr(it, "__self__", None)
        if isinstance(owner, types.ModuleType | type | None):
            self._named(it)
        else:
            self._all("method", [it.__name__, owner])

    def _object(self, it: Any) -> None:
        """Anything else: its class, and its state as copying and pickling see it."""
        if any(it is generator for generator in _of_every_replay()):
            self._put("begins with the seed")
            return
        if isinstance(content := getattr(it, "content_hash", None), str):
            self._put("content", content)
            return
        self._walk(type(it))
        try:
            parts = it.__reduce_ex__(4)
        except Exception:
            self._cannot_know(f"the state of a {type(it).__qualname__}")
            return
        if isinstance(parts, str):
            self._put(parts)
            return
        self._put(getattr(parts[0], "__qualname__", ""))
        for part in parts[1:]:
            self._all("part", part if isinstance(part, Iterator) else [part])


_OF_CLASSES = {
    "__dict__",
    "__slotnames__",
    "__weakref__",
    "__doc__",
    "__module__",
    "__firstlineno__",
    "__static_attributes__",
    "__annotate__",
    "__annotate_func__",
    "__annotations_cache__",
    "__abstractmethods__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__match_args__",
    "_abc_impl",
}


_EXACTLY: dict[type, Callable[[Reads, Any], None]] = {
    tuple: lambda reads, it: reads._all("tuple", it),
    list: lambda reads, it: reads._all("list", it),
    set: lambda reads, it: reads._unordered("set", it),
    frozenset: lambda reads, it: reads._unordered("frozenset", it),
    dict: Reads._dict,
    types.CodeType: Reads._code,
    types.MappingProxyType: lambda reads, it: reads._dict(dict(it)),
}
_EQUAL_ANYWHERE = (tuple, frozenset, types.CodeType)
_OF_C = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)
_KINDS: tuple[tuple[Any, Callable[[Reads, Any], None]], ...] = (
    (types.FunctionType, Reads._function),
    (types.MethodType, Reads._method),
    (types.BuiltinFunctionType, Reads._builtin),
    (_OF_C, lambda reads, it: reads._put("of C", it.__name__)),
    (types.ModuleType, lambda reads, it: reads._put("module", it.__name__)),
    (type, Reads._class),
    ((staticmethod, classmethod, property, functools.cached_property), Reads._descriptor),
    (functools.partial, Reads._partial),
    (Enum, lambda reads, it: reads._put("enum", type(it).__qualname__, it.name, it.value)),
)


def _module_of(it: Any) -> str | None:
    return getattr(it, "__module__", None) or type(it).__module__


def _of_every_replay() -> tuple[Any, ...]:
    """The generators that every replay begins with anew."""
    numpy = sys.modules.get("numpy")
    return (random._inst, *((numpy.random.mtrand._rand,) if numpy else ()))
