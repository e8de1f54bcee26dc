"""Run code after a program has imported a module."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


def after_import(name: str, call: Callable[[ModuleType], None]) -> None:
    """Call a function with a module once it is imported as a whole: now, or when its import, under way or not, ends."""
    module = sys.modules.get(name)
    if module is None:
        sys.meta_path.insert(0, _AfterImport(name, call))
    elif module.__spec__ is not None and getattr(module.__spec__, "_initializing", False):
        _Loading.of(module.__spec__).calls.append(call)
    else:
        call(module)


class _Loading(importlib.machinery.ModuleSpec):
    """The spec of a module whose import is under way: calls functions when Python notes that the import has ended."""

    calls: list[Callable[[ModuleType], None]]

    @classmethod
    def of(cls, spec: importlib.machinery.ModuleSpec) -> "_Loading":
        """Return the spec itself, as one of these."""
        if not isinstance(spec, cls):
            spec.__class__ = cls
            del spec.__dict__["_initializing"]  # a property from now on
            spec.__dict__["calls"] = []
        return spec  # type: ignore[return-value]

    @property
    def _initializing(self) -> bool:
        return self.__class__ is _Loading

    @_initializing.setter
    def _initializing(self, now: bool) -> None:
        if now:
            return
        self.__class__ = importlib.machinery.ModuleSpec  # type: ignore[assignment]
        self.__dict__["_initializing"] = False
        calls, module = self.__dict__.pop("calls"), sys.modules.get(self.name)
        for call in calls if module is not None else ():  # None: the import has failed
            call(module)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once, with the module, when the module of that name has just been imported.

    It is put into sys.meta_path, and removes itself from there. A program that only looks for the module
    (importlib.util.find_spec), as transformers does, does not cause the call.
    """

    def __init__(self, name: str, call: Callable[[ModuleType], None]) -> None:
        self._name, self._call = name, call
        self._looking = False

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the module's own spec, whose loader is made to call the function; None for any other module."""
        if fullname != self._name or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._call(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
